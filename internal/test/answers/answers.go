// Package answers runs pipelines over events, with faults and without, and compares their output.
package answers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// Runner is a pipeline that is ready to run, such as those of internal/pipeline.
type Runner interface {
	CreateTopics(ctx context.Context, log stream.Log) error
	Run(ctx context.Context, log stream.Log) error
	WaitIdle(ctx context.Context, log stream.Log) error
	Outputs() []string
}

// Answer is the records that a pipeline wrote, by topic and partition.
type Answer map[stream.Partition][]stream.Record

// Values returns the values of a topic's records, partition by partition.
func (a Answer) Values(topic string) []string {
	var values []string
	for _, p := range a.partitions() {
		for _, r := range a[p] {
			if p.Topic == topic {
				values = append(values, string(r.Value))
			}
		}
	}
	return values
}

func (a Answer) partitions() []stream.Partition {
	var list []stream.Partition
	for p := range a {
		list = append(list, p)
	}
	slices.SortFunc(list, func(x, y stream.Partition) int {
		return cmp.Or(strings.Compare(x.Topic, y.Topic), int(x.Index-y.Index))
	})
	return list
}

// difference returns the first difference of two answers, or "" if they are equal.
func (a Answer) difference(b Answer) string {
	for _, p := range a.partitions() {
		for i := range min(len(a[p]), len(b[p])) {
			if x, y := show(&a[p][i]), show(&b[p][i]); x != y {
				return fmt.Sprintf("%v@%d:\n   %s\n != %s", p, i, x, y)
			}
		}
		if len(a[p]) != len(b[p]) {
			return fmt.Sprintf("%v has %d records and %d", p, len(a[p]), len(b[p]))
		}
	}
	return ""
}

func show(r *stream.Record) string {
	text := fmt.Sprintf("%s %q %q", r.Time.UTC().Format(time.RFC3339Nano), r.Key, r.Value)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%q", h.Key, h.Value)
	}
	return text
}

// RunAll appends events to log, runs the pipeline until it has committed all of them, and returns
// its output. The log must be a stream.Inspector, as the log of every engine is.
func RunAll(ctx context.Context, log stream.Log, r Runner, events []stream.Record) (Answer, error) {
	return runAll(ctx, log, log, r, events)
}

// runAll runs the pipeline on faulty, which is log with faults.
func runAll(ctx context.Context, log, faulty stream.Log, r Runner, events []stream.Record) (Answer, error) {
	if err := r.CreateTopics(ctx, log); err != nil {
		return nil, err
	}
	if err := log.Append(ctx, slices.Clone(events)...); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- r.Run(running, faulty)
		stop() // ends the wait if the pipeline cannot run
	}()
	idle := r.WaitIdle(running, log)
	stop()
	if err := <-ended; err != nil {
		return nil, err
	}
	if idle != nil {
		return nil, idle
	}
	return readAll(ctx, log, r.Outputs())
}

// inspected is a faulty log that can be inspected like the log inside.
type inspected struct {
	stream.Log
	stream.Inspector
}

func readAll(ctx context.Context, log stream.Log, topics []string) (Answer, error) {
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return nil, fmt.Errorf("a log of type %T cannot be inspected", log)
	}
	known, err := log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	answer := Answer{}
	for _, t := range known {
		for i := range t.Partitions {
			p := stream.Partition{Topic: t.Name, Index: i}
			if !slices.Contains(topics, t.Name) {
				continue
			}
			first, next, err := inspector.Offsets(ctx, p)
			if err != nil {
				return nil, err
			}
			if answer[p], err = readRange(ctx, log, p, first, next); err != nil {
				return nil, err
			}
		}
	}
	return answer, nil
}

func readRange(ctx context.Context, log stream.Log, p stream.Partition, first, next stream.Offset) ([]stream.Record, error) {
	var records []stream.Record
	if first == next {
		return nil, nil
	}
	for r, err := range log.Tail(ctx, p, first) {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		if r.Offset+1 >= next {
			break
		}
	}
	return records, nil
}

// SameAnswer checks that a pipeline writes the same answer despite faults. It runs the pipeline
// over events without a fault. Then it runs it once per seed in virtual time, with lost and hidden
// commits, takeovers, rebalances and delays. It fails if outputs differ. Functions in Go that read
// a clock, randomness or shared state do not pass. newLog returns a log with a short rebalance
// timeout. newRunner returns a pipeline with several members, so that rebalances happen. The topic
// of events must be its only input.
func SameAnswer(t *testing.T, newLog func() stream.Log, newRunner func() (Runner, error), events []stream.Record, seeds uint64) {
	t.Helper()
	var want Answer
	for run := range seeds + 1 {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			faulty := log
			if run > 0 {
				inspector, _ := log.(stream.Inspector)
				faulty = inspected{streamtest.NewFaulty(log, streamtest.FaultyOptions{Seed: run}), inspector}
			}
			r, err := newRunner()
			if err != nil {
				t.Fatal(err)
			}
			got, err := runAll(t.Context(), log, faulty, r, events)
			if err = errors.Join(err, faulty.Close()); err != nil {
				t.Fatalf("seed %d: %v", run, err)
			}
			if want == nil {
				want = got
			}
			if d := want.difference(got); d != "" {
				t.Fatalf("seed %d: without faults and with them: %s", run, d)
			}
		})
	}
}
