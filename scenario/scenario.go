// Package scenario runs specifications of pipelines that people can read: text
// files of events with their times, and below each event the records that it
// leads to. A scenario runs in several ways, on every engine, in large and small
// steps, with members that share the work and processes that are killed; each
// way must leave the same bytes.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/afterbay/afterbay"
)

// Options say how scenarios are run. The zero value is a good default.
type Options struct {
	// Code is what the pipelines name that is written in Go. Sinks of its kinds get what
	// the pipelines write, in each way; a record may come to them again. Sinks of other
	// kinds get nothing.
	Code afterbay.Code

	// Logs are URLs of logs that the scenario also runs on, each a way of its own: of the
	// kinds of Code, or of those that pipeline files may name. A log is opened for each
	// scenario, in a folder of its own, and has to be empty.
	Logs []string

	// Announce is told of each program that a model is, before it is run; nil is not.
	Announce func(text string)

	// Update writes what happened into the file, where it differs from what
	// is expected there, and the ways agree on it.
	Update bool

	// Progress is called before each way, with its name and its number among
	// so many; nil is none.
	Progress func(way string, number, of int)
}

// Failure is one thing that is not as a scenario expects it.
type Failure struct {
	File    string
	Line    int    // of the command whose results differ; 0 where no command has them
	Command string // as it stands there
	Message string // what differs: lines with "-" were expected, with "+" happened

	got []string // what happened
}

// Error returns position, command and difference.
func (f Failure) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s\n%s", f.File, f.Line, f.Command, f.Message)
}

// T is what Test needs of a *testing.T.
type T interface {
	Helper()
	Context() context.Context
	Error(args ...any)
}

// Test runs the scenario of a file and fails t with all that is not as expected.
func Test(t T, path string, o Options) {
	t.Helper()
	failures, err := Run(t.Context(), path, o)
	if err != nil {
		t.Error(err)
	}
	for _, f := range failures {
		t.Error(f)
	}
}

// Run runs the scenario of a file. What is not as expected are the failures; an
// error says that it could not be run to its end. Paths of pipeline files and
// models are relative to the scenario's folder.
func Run(ctx context.Context, path string, o Options) ([]Failure, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	s, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	failures, err := s.Run(ctx, o)
	if err != nil || !o.Update || len(failures) == 0 {
		return failures, err
	}
	updated, ok := s.updated(failures)
	if !ok {
		return failures, nil
	}
	if err := os.WriteFile(path, updated, 0o644); err != nil {
		return nil, fmt.Errorf("update scenario: %w", err)
	}
	return nil, nil
}

// readFile reads a file, and of a large one a byte more than it may have.
func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if about, err := f.Stat(); err == nil && about.Mode()&(os.ModeDevice|os.ModeDir) != 0 {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.LimitReader(f, fileMaxBytes+1))
}

// Run runs the scenario in every way. A way that leaves other bytes than the
// first is a failure, too.
func (s *Scenario) Run(ctx context.Context, o Options) (failures []Failure, err error) {
	all := slices.Clone(ways)
	for _, url := range o.Logs {
		all = append(all, onLog(url, o.Code))
	}
	return s.runIn(ctx, all, o)
}

// runIn runs the scenario in these ways.
func (s *Scenario) runIn(ctx context.Context, ways []way, o Options) (failures []Failure, err error) {
	w, err := s.prepare(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, p := range w.pipelines {
			p.runner.Close()
		}
	}()
	dir, err := os.MkdirTemp(folder(), "afterbay-scenario-")
	if err != nil {
		return nil, fmt.Errorf("run scenario: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var first *outcome
	for i, way := range ways {
		if o.Progress != nil {
			o.Progress(way.name, i+1, len(ways))
		}
		got, err := w.run(ctx, way, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.name, way.name, err)
		}
		if first == nil {
			first = got
			failures = s.compare(got.transcript)
			continue
		}
		if d := first.difference(got); d != "" {
			failures = append(failures, Failure{File: s.name, Message: fmt.Sprintf("the same events leave different results:\n- %s\n+ %s\n%s", ways[0].name, way.name, d)})
		}
	}
	return failures, nil
}

// folder is where logs are made that nobody keeps: in memory where there is such
// a file system, since a killed process leaves what it wrote, synced or not.
func folder() string {
	const shared = "/dev/shm"
	if about, err := os.Stat(shared); err == nil && about.IsDir() && os.Getenv("TMPDIR") == "" {
		return shared
	}
	return ""
}
