// Package faultserver is a model server that fails in the ways that servers
// fail: it is slow, hangs, has bursts of errors, resets connections, ends
// answers in their middle, answers something else, and is gone for a while. It
// runs in a process of its own and notes every call in a file before it answers,
// so that tests which kill pipelines can count what was paid for.
//
// It speaks the Open Inference Protocol over HTTP with JSON, for any model, and
// OpenAI's embeddings, moderations, chat completions and transcriptions (of sounds
// that Say made); any other POST is a call about its whole body.
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

// Options say how a server fails. The zero value never does, and notes nothing.
type Options struct {
	Listen string // 127.0.0.1 and a free port where it is ""
	File   string // that calls are noted in, behind those that it has
	Seed   uint64 // another one chooses other calls

	// The shares of calls, 0 to 1 and together at most 1, that have a fault.
	Slow  float64 // answered after SlowFor
	Hang  float64 // never answered
	Fail  float64 // answered with 500, and not paid for
	Reset float64 // paid for, and then the connection is reset
	Half  float64 // paid for, and the answer ends in its middle
	Wrong float64 // answered with something else: no JSON, nothing, a row too many, a score that is missing

	SlowFor time.Duration // 50 ms where it is 0
	Takes   time.Duration // of every call, before it is paid for
	// Tries is how many calls of the same body may have a fault of these: 2 where
	// it is 0. So who repeats calls gets an answer.
	Tries int

	Burst Cycle // calls are answered with 500, and not paid for
	Flap  Cycle // connections are reset before anything is done

	// Poison is a text: a call with a row that contains it is refused with 400.
	Poison string
	// Honour takes a call whose Idempotency-Key was paid for as that call: it is
	// answered and not paid for again.
	Honour bool
}

// Cycle is a time that comes again: the last For of each Every, from the start of the server
// on. The zero value never comes.
type Cycle struct {
	Every, For time.Duration

	// Met has the time begin with a call: the first that comes Every-For after the end of the
	// one before, or after the start. A clock alone is missed by calls that come in bursts of
	// their own. Between two such times, of any cycle, the server answers at least ten calls.
	// So it does not keep a breaker open whose only calls are probes.
	Met bool
}

// cycle is one of a server.
type cycle struct {
	Cycle
	start time.Time // of the server
	ends  time.Time // of the newest time that began with a call, or the start
}

func newCycle(c Cycle, start time.Time) cycle { return cycle{c, start, start} }

// between is how many calls are answered between two times that begin with a call.
const between = 10

// on reports whether a call that comes now falls into the time, which may begin with it.
// answered counts the calls that were answered since such a time began.
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

// Validate returns what is wrong with the options, all of it.
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

// variable of the environment has the options of a process that is a server.
const variable = "AFTERBAY_FAULT_SERVER"

// Main makes the process a server where Start started it, and does not return
// then. It is the first line of TestMain.
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

// serve serves until standard input ends, which it does with the test.
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

// Process is a server in a process of its own.
type Process struct {
	URL     string // http://host:port
	Options Options
	end     func()
}

// Start starts a server in a process of the test's own binary, whose TestMain
// begins with Main. It ends with t.
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
