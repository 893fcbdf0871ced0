// Package faultserver is a model server with the faults of real servers. It is slow, hangs, has
// bursts of errors, resets connections, cuts answers off, answers wrongly, and is away for a while.
// It runs in a separate process and records every call in a file before it answers. So tests that
// kill pipelines can count the calls that were paid for.
//
// It speaks the Open Inference Protocol over HTTP with JSON, for any model. It also speaks OpenAI's
// embeddings, moderations, chat completions and transcriptions (of sounds that Say made). Any other
// POST is a call with its whole body as the row.
package faultserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options say how a server fails. With the zero value it never fails, and records nothing.
type Options struct {
	Listen string // "" means 127.0.0.1 and a free port
	File   string // file that calls are appended to
	Seed   uint64 // selects the calls that fail

	// The shares of calls, 0 to 1 and together at most 1, that have a fault.
	Slow  float64 // answered after SlowFor
	Hang  float64 // never answered
	Fail  float64 // answered with 500, and not paid for
	Reset float64 // paid for, and then the connection is reset
	Half  float64 // paid for, and the answer ends in its middle
	Wrong float64 // answered wrongly: no JSON, nothing, an extra row, a missing score

	SlowFor time.Duration // 0 means 50 ms
	Takes   time.Duration // duration of every call, before it is paid for
	// Tries is how many calls with the same body may have one of these faults: 0 means 2. So a
	// client that retries gets an answer.
	Tries int

	Burst Cycle // calls are answered with 500, and not paid for
	Flap  Cycle // connections are reset before anything is done

	// Poison is a text: a call with a row that contains it is refused with 400.
	Poison string
	// Honour makes the server honour idempotency keys: a call with a key that was paid for is
	// answered and not paid for again.
	Honour bool
}

// Cycle is a period that recurs: the last For of each Every, from the start of the server on. The
// zero value never occurs.
type Cycle struct {
	Every, For time.Duration

	// Met starts the period with a call: the first one that arrives Every-For after the end of the
	// previous period, or after the start. Calls in bursts could miss a period that starts by the
	// clock. Between two such periods, of any cycle, the server answers at least ten calls. So it
	// does not keep a breaker open that sends only probes.
	Met bool
}

// cycle is the state of a Cycle.
type cycle struct {
	Cycle
	start time.Time // start of the server
	ends  time.Time // end of the newest period that began with a call, or the start
}

func newCycle(c Cycle, start time.Time) cycle { return cycle{c, start, start} }

// between is how many calls are answered between two periods that begin with a call.
const between = 10

// on reports whether a call that arrives now is in the period, which may begin with it. answered
// counts the calls answered since such a period began.
func (c *cycle) on(now time.Time, answered *int) bool {
	switch {
	case c.Every == 0:
		return false
	case !c.Met:
		return now.Sub(c.start)%c.Every >= c.Every-c.For
	case *answered >= between && now.Sub(c.ends) >= c.Every-c.For:
		c.ends, *answered = now.Add(c.For), 0
	}
	return now.Before(c.ends)
}

// Validate returns all errors of the options.
func (o Options) Validate() error {
	var list []error
	sum := 0.0
	for _, s := range o.shares() {
		if !(s.share >= 0 && s.share <= 1) {
			list = append(list, fmt.Errorf("%s is %g: use 0 to 1", s.fault, s.share))
		}
		sum += s.share
	}
	if sum > 1+1e-9 || math.IsNaN(sum) {
		list = append(list, fmt.Errorf("the shares of all faults are %g together: use at most 1", sum))
	}
	for _, c := range []Cycle{o.Burst, o.Flap} {
		if c.Every < 0 || c.For < 0 || c.For > c.Every {
			list = append(list, fmt.Errorf("%v of every %v: use a part of it", c.For, c.Every))
		}
	}
	if o.SlowFor < 0 || o.Takes < 0 || o.Tries < 0 {
		list = append(list, errors.New("a time or a number of tries is negative"))
	}
	return errors.Join(list...)
}

type share struct {
	fault Fault
	share float64
}

func (o *Options) shares() []share {
	return []share{{Slow, o.Slow}, {Hang, o.Hang}, {Fail, o.Fail}, {Reset, o.Reset}, {Half, o.Half}, {Wrong, o.Wrong}}
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.SlowFor == 0 {
		o.SlowFor = 50 * time.Millisecond
	}
	if o.Tries == 0 {
		o.Tries = 2
	}
	return o
}

// variable is the environment variable with the options of a server process.
const variable = "AFTERBAY_FAULT_SERVER"

// Main runs the server if Start started the process, and then does not return. It must be the first
// line of TestMain.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "fault server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve serves until standard input ends, which happens when the test ends.
func serve(text string) error {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	s, err := New(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return s.Close()
}

// Process is a server in a separate process.
type Process struct {
	URL     string // http://host:port
	Options Options
	end     func()
}

// Start starts a server as a process of the test's own binary. TestMain must begin with Main. The
// server ends with t.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	p, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	return p
}

func start(o Options) (*Process, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env, command.Stderr = append(os.Environ(), variable+"="+string(text)), os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{Options: o, end: sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.End()
		return nil, fmt.Errorf("a fault server did not start: %w", err)
	}
	p.URL = "http://" + strings.TrimSpace(line)
	return p, nil
}

// End kills the process. Its file has every call that was paid for.
func (p *Process) End() { p.end() }

// Again starts a server at the same address and with the same file, after End.
func (p *Process) Again(t testing.TB) *Process {
	t.Helper()
	o := p.Options
	o.Listen = strings.TrimPrefix(p.URL, "http://")
	return Start(t, o)
}
