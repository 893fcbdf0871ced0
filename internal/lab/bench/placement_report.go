package bench

import (
	"bufio"
	"cmp"
	"context"
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

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// PlacementReport is the comparison of both placements.
type PlacementReport struct {
	Options *PlacementOptions
	From    string // description of the events
	placed  *placed
	stderr  io.Writer // of this process and its child processes

	Pipeline, Model, Kind string
	Inside, Endpoint      Placement
	Choice                Choice
	Reason                string
}

func newPlacementReport(c *PlacementOptions, p *placed) *PlacementReport {
	r := &PlacementReport{Options: c, placed: p, stderr: p.Err}
	if _, ok := p.Err.(*os.File); !ok { // child processes can write to a file directly
		r.stderr = &together{out: p.Err}
	}
	return r
}

// PlacementOptions are the flags of afterbay placement. The help of the flags describes them.
type PlacementOptions struct {
	File, Events                   string
	Endpoint, EndpointModel, Token string
	Place                          string // inside or endpoint: the placement that this process measures
	Pipeline, Model                string
	Rate                           int
	Duration                       time.Duration
	Rounds                         int
	Parallelism                    int
	Dir                            string
	Seed                           uint64
	Budget                         time.Duration
}

// Settle returns how long a schedule runs before it is measured.
func (c *PlacementOptions) Settle() time.Duration { return min(placementSettle, c.Duration) }

// MeasurePlace measures one placement.
func MeasurePlace(ctx context.Context, c *PlacementOptions, program *Program) (*Placement, error) {
	p, err := c.load(ctx, program)
	if err != nil {
		return nil, err
	}
	return p.measure(c)
}

// ComparePlaces measures both placements, each in its own processes of this program, and decides.
func ComparePlaces(ctx context.Context, c *PlacementOptions, program *Program) (*PlacementReport, error) {
	p, err := c.load(ctx, program)
	if err != nil {
		return nil, err
	}
	r := newPlacementReport(c, p)
	r.Pipeline, r.Model, r.Kind, r.From = p.pipeline.Name, p.model.Name, p.loaded.Info().Kind, p.from
	trial, err := p.runner(p.loaded, 1) // finds errors in the pipeline
	if err != nil {
		return nil, err
	}
	trial.Close() // each placement opens its own models
	models.Close(p.loaded)
	if err := r.measure(); err != nil {
		return nil, err
	}
	r.Choice, r.Reason = Decide(&r.Inside, &r.Endpoint, c.Budget)
	return r, nil
}

// together is a writer that several processes can share.
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

// measure measures the placements alternately, so that other load on the machine affects both. Each
// measurement runs in a process of its own, so that it has its own memory.
func (r *PlacementReport) measure() (err error) {
	c := r.Options
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
	var inside, endpoint []Placement
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
	r.Inside, r.Endpoint = Median(inside), Median(endpoint)
	return nil
}

// self returns a command that runs this program with other arguments.
func (r *PlacementReport) self(args ...string) (*exec.Cmd, error) {
	command, err := r.placed.Self(r.placed.ctx, args...)
	if err != nil {
		return nil, err
	}
	command.Stderr, command.Env = r.stderr, os.Environ()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	return command, nil
}

// place measures a placement in a child process.
func (r *PlacementReport) place(where, url string) (p Placement, err error) {
	c := r.Options
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
		return p, r.placed.Ended(ended.ExitCode(), err)
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

// serve starts a server process for the model.
func (r *PlacementReport) serve() (*scoringServer, error) {
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
	go func() { // ends when the process ends
		_, err := io.Copy(io.Discard, out)
		s.drained <- err
	}()
	if s.url == "" {
		return nil, cmp.Or(s.end(), errors.New("it ended before it listened"))
	}
	return s, nil
}

// end stops the process.
func (s *scoringServer) end() error {
	err := s.command.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(err, <-s.drained, s.command.Wait())
}
