package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/golden"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// The golden data directory: its files, its content, and the outputs after it is opened.
const (
	directoryFile = "internal/e2e/testdata/golden/directory.tar.gz"
	directoryText = "internal/e2e/testdata/golden/directory.txt"
)

// directoryPipeline has features, a function with state and timers, a group, and a
// service with a journal of answers.
func directoryPipeline(s *service) lang.Pipeline {
	p := callPipeline(callParts)
	p.Name, p.Input.Partitions = "kept", answerPartitions
	p.Models = []lang.Model{{
		Name: "far", Go: "far", Version: 1, Outputs: []lang.Field{{Name: "twice", Type: "number"}},
		Call: &lang.Calling{Breaker: lang.Breaker{Open: "queue"}}, Journal: &lang.Journal{By: "event"},
	}}
	p.Code = lang.Code{Functions: map[string]udf.Function{"visits": visits}, Models: map[string]model.Model{"far": s}}
	p.Steps = slices.Insert(p.Steps, 1, []lang.Step{
		&steps.Features{List: []steps.Feature{
			{Name: "seen", Windows: []string{"60s", "1h/1m"}, Aggregates: []string{"count"}},
			{Name: "places", Value: "at", Last: 3, Aggregates: []string{"count", "sum", "max"}},
			{Name: "gap", Elapsed: true},
		}},
		&steps.Call{Go: "visits", Outputs: []lang.Field{{Name: "clicks", Type: "int"}}, Topics: []string{"visits"}},
	}...)
	chat := &p.Steps[len(p.Steps)-1].(*steps.Route).Cases[0]
	chat.Steps = []lang.Step{
		&steps.Let{List: []lang.Binding{{Name: "n", Expr: "float(at % 100)"}}},
		&steps.Score{Model: "far", Inputs: []string{"n"}, Async: true},
		&steps.Emit{Topic: "chats", Names: []string{"customer", "at", "seen.count_60s", "clicks", "far.twice"}},
	}
	return p
}

// directoryEvents are chats and parts of calls; the last call never gets its end.
func directoryEvents() (events []stream.Record) {
	for i := range 40 {
		customer, at := fmt.Sprint("c", i%5), 1_750_000_000+i
		e := chunk(customer, at, "", 0, false)
		if i%4 == 3 {
			e = chunk(customer, at, fmt.Sprint("call", i/12), i/4%3, i/4%3 == 2 && i < 36)
		}
		e.Partition.Index, e.Time = int32(i%5%answerPartitions), time.Unix(int64(at), 0)
		events = append(events, e)
	}
	return events
}

// TestDirectoryStillOpens opens a small data directory with a queue, an open group, a
// journal, features and a function's state and timers, compares the whole sorted state,
// goes on with the pipeline and compares the outputs. `go test -run
// TestDirectoryStillOpens . -update` makes the directory anew: its chats with an even
// number are answered, the others wait for a service that is down.
func TestDirectoryStillOpens(t *testing.T) {
	dir := t.TempDir()
	if *golden.Update {
		makeDirectory(t, dir)
		pack(t, dir)
	} else {
		unpack(t, dir)
	}
	log, err := embedded.Open(dir, embedded.Options{SegmentBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	runner, err := builtin.New(directoryPipeline(&service{}), pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	var b strings.Builder
	for _, line := range readAnswer(t, runner, log).state {
		fmt.Fprintln(&b, line)
	}
	if err := log.Append(t.Context(), chunk("c0", 1_750_010_000, "", 0, false), chunk("c1", 1_750_010_000, "", 0, false)); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	left := readAnswer(t, runner, log)
	for _, topic := range []string{"calls", "chats", "visits", "kept.dlq"} {
		for i := range answerPartitions {
			var lines []string
			for _, r := range left.outputs[fmt.Sprintf("%s/%d", topic, i)] {
				lines = append(lines, fmt.Sprintf("%s/%d %s\n", topic, i, showRecord(r)))
			}
			if slices.Sort(lines); topic == "chats" { // their answers have no order
				b.WriteString("in any order:\n")
			}
			b.WriteString(strings.Join(lines, ""))
		}
	}
	golden.Check(t, directoryText, b.String())
}

// makeDirectory runs the pipeline until the odd numbers wait for the service.
func makeDirectory(t *testing.T, dir string) {
	t.Helper()
	down := &service{instead: func(_ int, rows []float64) error {
		if int(rows[0])%2 == 1 {
			return blamed(model.BlameWay)
		}
		return nil
	}}
	log, err := embedded.Open(dir, embedded.Options{SegmentBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	p := directoryPipeline(down)
	p.Steps[len(p.Steps)-1].(*steps.Route).Cases[0].Steps[1].(*steps.Score).Batch.Size = 1
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if err := errors.Join(runner.CreateTopics(t.Context(), log), log.Append(t.Context(), directoryEvents()...)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, log) }()
	for i := range int32(answerPartitions) { // what waits for the service is no reason to wait here
		in := stream.Partition{Topic: runner.Input(), Index: i}
		for {
			_, next, err := log.Offsets(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			committed, err := log.Committed(ctx, runner.Name(), in)
			if err != nil {
				t.Fatal(err)
			}
			if committed >= next {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, dir string) {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), os.MkdirAll(filepath.Dir(directoryFile), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(directoryFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(directoryFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
