package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// noted is a log that notes the steps that are committed.
type noted struct {
	stream.Log
	mu    sync.Mutex // guards steps
	steps []stream.Transaction
}

func (n *noted) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := n.Log.Join(ctx, group, topics...)
	return notedMember{s, n}, err
}

type notedMember struct {
	stream.Member
	log *noted
}

func (s notedMember) Commit(step stream.Transaction) *stream.Pending {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.steps = append(s.log.steps, step)
	return s.Member.Commit(step)
}

// eachKind runs a test of a sink of each kind that refuses all records.
func eachKind(t *testing.T, test func(b *bench, refuses sink.Service)) {
	for _, kind := range []string{"each", "many", "whole"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				refused := errors.New("too long")
				switch kind {
				case "each":
					b.service.answer = func(string, int) error { return &sink.Refused{Err: refused} }
					test(b, sink.Service{Each: &b.service})
				case "many":
					test(b, sink.Service{Many: &database{answer: func(_ int, records []stream.Record) (o sink.Outcome, _ error) {
						for i := range records {
							o.Refused = append(o.Refused, sink.Refusal{Index: i, Err: refused})
						}
						return o, nil
					}}})
				default:
					test(b, sink.Service{Whole: &shelf{bench: b}})
				}
			})
		})
	}
}

// TestCommitsHoldNoMoreThanFitsAndAtLeastOneDeadLetter has a dead letter among many
// that is larger than a commit is to be.
func TestCommitsHoldNoMoreThanFitsAndAtLeastOneDeadLetter(t *testing.T) {
	eachKind(t, func(b *bench, refuses sink.Service) {
		const records, bytesMax = 12, 1 << 20
		var list []stream.Record
		for i := range records {
			size := 300 << 10
			if i == 5 {
				size = bytesMax + 1<<10
			}
			list = append(list, stream.Record{
				Partition: stream.Partition{Topic: "freezes"}, Value: make([]byte, size),
				Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%dx", i)}},
			})
		}
		b.ok(b.log.Append(b.Context(), list...))
		log := &noted{Log: b.log}
		_, stop := b.startTo(refuses, log, sinks.Options{Wait: time.Second, Objects: sink.Bounds{Wait: time.Second}})
		b.wait(time.Minute)
		stop()
		letters, several := b.dead(), 0
		for i, r := range letters {
			if id := header.Get(&r, header.Event); id != fmt.Sprintf("e%dx", i) {
				b.Errorf("dead letter %d is %s", i, id)
			}
		}
		for _, step := range log.steps {
			bytes := 0
			for _, r := range step.Outputs {
				bytes += len(r.Value)
			}
			if several = max(several, len(step.Outputs)); bytes > bytesMax && len(step.Outputs) > 1 {
				b.Errorf("a commit of %d bytes", bytes)
			}
		}
		if len(letters) != records || several < 2 {
			b.Errorf("%d dead letters, up to %d by a commit", len(letters), several)
		}
	})
}

// TestPartitionsTakeTurns has sinks that make one call at a time.
func TestPartitionsTakeTurns(t *testing.T) {
	for _, kind := range []string{"each", "many"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.service.takes = time.Millisecond
				w := &database{takes: time.Millisecond}
				const records = 40
				for i := range 2 * records {
					b.write(int32(i%2), "", string("ab"[i%2])+fmt.Sprint(i), time.Now())
				}
				to := sink.Service{Each: &b.service}
				if kind == "many" {
					to = sink.Service{Many: w}
				}
				_, stop := b.startTo(to, b.log, sinks.Options{Concurrency: 1, Batch: 1})
				b.wait(time.Minute)
				stop()
				order := b.service.taken
				if kind == "many" {
					writes, _, _ := w.told()
					order = slices.Concat(writes...)
				}
				first := order[:records]
				if n := len(slices.DeleteFunc(slices.Clone(first), func(id string) bool { return id[0] == 'a' })); n < records/4 || n > 3*records/4 {
					t.Errorf("of the first %d records %d are of one of two partitions: %v", records, n, first)
				}
			})
		})
	}
}
