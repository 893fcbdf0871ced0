package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/internal/lab/bench"
	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// placementReport is what both placements came to.
type placementReport struct {
	command *placementCommand
	placed  *placed
	stderr  io.Writer // of this process and of those that it starts

	inside, endpoint bench.Placement
	choice           bench.Choice
	reason           string
}

func newPlacementReport(c *placementCommand, p *placed) *placementReport {
	r := &placementReport{command: c, placed: p, stderr: p.stderr}
	if _, ok := p.stderr.(*os.File); !ok { // a file is handed to processes as it is
		r.stderr = &together{out: p.stderr}
	}
	return r
}

// together lets several processes write to one writer.
type together struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (t *together) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Write(text)
}

// measure measures the placements in turn, so that what else the machine does
// meets both, each in a process of its own: what it has in memory is then its own.
func (r *placementReport) measure() (err error) {
	c := r.command
	url, memory := c.Endpoint, func() int64 { return 0 }
	if url == "" {
		server, cause := r.serve()
		if cause != nil {
			return fmt.Errorf("serve the model: %w", cause)
		}
		defer func() { err = errors.Join(err, server.end()) }()
		url, memory = server.url, func() int64 { return procfs.Resident(server.command.Process.Pid) }
	}
	fmt.Fprintf(r.stderr, "measuring %d times %v with the model inside, in turn with as long at %s\n", c.Rounds, min(placementSettle, c.Duration)+c.Duration, url)
	var inside, endpoint []bench.Placement
	for range c.Rounds {
		in, err := r.place("inside", url)
		if err != nil {
			return fmt.Errorf("measure with the model inside: %w", err)
		}
		out, err := r.place("endpoint", url)
		if err != nil {
			return fmt.Errorf("measure with the model at %s: %w", url, err)
		}
		out.Endpoint = memory()
		inside, endpoint = append(inside, in), append(endpoint, out)
	}
	r.inside, r.endpoint = bench.Median(inside), bench.Median(endpoint)
	return nil
}

// self runs this program with other arguments.
func (r *placementReport) self(args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(r.placed.ctx, program, args...)
	command.Stderr, command.Env = r.stderr, os.Environ()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	return command, nil
}

// place has a process measure a placement.
func (r *placementReport) place(where, url string) (p bench.Placement, err error) {
	c := r.command
	args := []string{
		"placement", c.File, "--place=" + where, "--endpoint=" + url, "--pipeline=" + r.placed.pipeline.Name, "--model=" + r.placed.model.Name, "--dir=" + c.Dir,
		"--rate=" + strconv.Itoa(c.Rate), "--duration=" + c.Duration.String(), "--parallelism=" + strconv.Itoa(c.Parallelism), "--seed=" + strconv.FormatUint(c.Seed, 10),
	}
	if c.EndpointModel != "" {
		args = append(args, "--endpoint-model="+c.EndpointModel)
	}
	if c.Events != "" {
		args = append(args, "--events="+c.Events)
	}
	command, err := r.self(args...)
	if err != nil {
		return p, err
	}
	if c.Token != "" {
		command.Env = append(command.Env, "AFTERBAY_TOKEN="+c.Token)
	}
	out, err := command.Output()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		return p, endedWith(ended.ExitCode(), err)
	case err != nil:
		return p, err
	}
	return p, json.Unmarshal(out, &p)
}

// scoringServer is a process of afterbay serve.
type scoringServer struct {
	command *exec.Cmd
	url     string
	drained chan error
}

// serve starts one for the model.
func (r *placementReport) serve() (*scoringServer, error) {
	command, err := r.self("serve", "--model", r.placed.model.Name+"="+r.placed.path, "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &scoringServer{command: command, drained: make(chan error, 1)}
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "listening on http://"); ok {
			address, _, _ := strings.Cut(text, ": ")
			s.url = "grpc://" + address
		}
	}
	go func() { // ends with the process
		_, err := io.Copy(io.Discard, out)
		s.drained <- err
	}()
	if s.url == "" {
		return nil, cmp.Or(s.end(), errors.New("it ended before it listened"))
	}
	return s, nil
}

// end ends the process.
func (s *scoringServer) end() error {
	err := s.command.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(err, <-s.drained, s.command.Wait())
}

// sum prints what phases come to that were not measured.
func (c *placementCommand) sum(a *app) error {
	phases, err := bench.ParsePhases(c.Phases)
	if err != nil {
		return usage("--phases: %w", err)
	}
	bound := bench.Bound(phases)
	if c.JSON {
		sums := sumsJSON{Phases: phasesJSON(phases), Bound: toMilliseconds(bound)}
		sums.within(c.Budget, bound, 0)
		if err := json.NewEncoder(a.stdout).Encode(sums); err != nil {
			return err
		}
	} else {
		for _, h := range append(phases, bench.Phase{Name: "sum of p99s", P99: bound}) {
			fmt.Fprintf(a.stdout, "%-13s%v\n", h.Name, h.P99)
		}
		if c.Budget > 0 {
			fmt.Fprintf(a.stdout, "%-13s%v of %v\n", "headroom", c.Budget-bound, c.Budget)
		}
	}
	if c.Budget > 0 && bound > c.Budget {
		return fmt.Errorf("the phases take %v more than the budget", bound-c.Budget)
	}
	return nil
}
