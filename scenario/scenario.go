// Package scenario runs readable specifications of pipelines. A scenario is a text file that lists
// events with their times, and below each event the records that it must produce. A scenario runs
// in several ways: on every log engine, in large and small transactions, with several members, and
// with processes that are killed. Each way must leave the same bytes.
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

// Options configure how scenarios run. The zero value is a good default.
type Options struct {
	// Code is the Go code that the pipelines name. Sinks of the kinds in Code receive the output of
	// the pipelines, in each way; they may receive a record more than once. Sinks of other kinds
	// receive nothing.
	Code afterbay.Code

	// Logs are URLs of additional logs to run on, each as one more way. A URL names a kind of log
	// of Code, or one that pipeline files can name. Each scenario opens the log anew, with a folder
	// of its own. The log must be empty.
	Logs []string

	// Announce is called before a program of a model is run, with a description of it. nil is not
	// called.
	Announce func(text string)

	// Update writes the actual results into the file, if they differ from the expected ones and all
	// ways agree on them.
	Update bool

	// Progress is called before each way, with the way's name, its number (from 1) and the number
	// of ways. nil is not called.
	Progress func(way string, number, of int)
}

// Failure is one difference between a scenario and its run.
type Failure struct {
	File    string
	Line    int    // line of the command with the difference; 0 if the failure has no command
	Command string // as in the file
	Message string // the difference: lines with "-" were expected, lines with "+" happened

	got []string // the actual results
}

// Error returns the position, the command and the difference.
func (f Failure) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s\n%s", f.File, f.Line, f.Command, f.Message)
}

// T is the part of *testing.T that Test needs.
type T interface {
	Helper()
	Context() context.Context
	Error(args ...any)
}

// Test runs the scenario of a file and fails t for each difference.
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

// Run runs the scenario of a file in every way. It returns the differences as failures. If
// Options.Update has rewritten the file, it returns no failures. An error means that the file is
// not valid, or that the scenario could not run to its end. Paths of pipeline files and models are
// relative to the scenario's folder.
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

// readFile reads a file. If the file is too large, it reads one byte more than the limit.
func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if about, err := f.Stat(); err == nil && about.Mode()&(os.ModeDevice|os.ModeDir) != 0 {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return io.ReadAll(io.LimitReader(f, fileMaxBytes+1))
}

// Run runs the scenario in every way. It also reports a failure for each way that leaves other
// bytes than the first. It ignores Options.Update.
func (s *Scenario) Run(ctx context.Context, o Options) (failures []Failure, err error) {
	all := slices.Clone(ways)
	for _, url := range o.Logs {
		all = append(all, onLog(url, o.Code))
	}
	return s.runIn(ctx, all, o)
}

// runIn runs the scenario in the given ways.
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

// folder returns the folder for temporary logs. It uses a file system in memory if there is one:
// the kills of a scenario end a process, not the machine, so files need not reach a disk.
func folder() string {
	const shared = "/dev/shm"
	if about, err := os.Stat(shared); err == nil && about.IsDir() && os.Getenv("TMPDIR") == "" {
		return shared
	}
	return ""
}
