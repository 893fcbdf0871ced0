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
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// database is a Writer that takes a while, and answers as a test says.
type database struct {
	log    stream.Inspector // nil where what it is told of commits is not compared with what is
	takes  time.Duration
	answer func(write int, records []stream.Record) (sink.Outcome, error) // nil takes every record

	mu     sync.Mutex // guards what follows
	owners map[stream.Partition]int
	writes [][]string // ids
	before []int      // records before each write that were not committed
	claims int
	wrong  error // that it was told
}

func (b *database) Claim(_ context.Context, p stream.Partition, _ stream.Offset) (sink.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owners == nil {
		b.owners = map[stream.Partition]int{}
	}
	b.owners[p]++
	b.claims++
	return &claimed{b, p, b.owners[p]}, nil
}

// told returns copies of what the writes brought, and of how many records before each
// were not committed, and the number of claims.
func (b *database) told() (writes [][]string, before []int, claims int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.writes), slices.Clone(b.before), b.claims
}

type claimed struct {
	*database
	p     stream.Partition
	owner int
}

func (c *claimed) Write(ctx context.Context, committed stream.Offset, records []stream.Record) (sink.Outcome, error) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		if durable, err := c.log.Committed(ctx, group, c.p); err != nil || durable < committed {
			c.wrong = fmt.Errorf("told that %d is committed, which is %d: %w", committed, durable, err)
		}
	}
	if c.owners[c.p] != c.owner {
		return sink.Outcome{}, fmt.Errorf("owner %d: %w", c.owner, stream.ErrFenced)
	}
	if committed > records[0].Offset {
		return sink.Outcome{}, errors.New("a record came again that was committed")
	}
	var ids []string
	for i := range records {
		ids = append(ids, header.Get(&records[i], header.ID))
	}
	c.writes, c.before = append(c.writes, ids), append(c.before, int(records[0].Offset-committed))
	if c.answer == nil {
		return sink.Outcome{}, nil
	}
	return c.answer(len(c.writes), records)
}

// slow returns a log whose commits take up to most.
func slow(log stream.Log, most time.Duration) stream.Log {
	return streamtest.NewFaulty(log, streamtest.FaultyOptions{Seed: 1, Percent: map[streamtest.Fault]int{streamtest.Delay: 100}, MaxDelay: most})
}

func TestWriterGetsBatchesInOrderAndWhatItRefusesIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var want []string
		for i := range 1000 {
			b.write(0, "k", fmt.Sprint("e", i), time.Now().Add(-time.Minute))
			want = append(want, fmt.Sprint("e", i))
		}
		w := &database{takes: 10 * time.Millisecond}
		w.answer = func(write int, records []stream.Record) (sink.Outcome, error) {
			if write == 3 {
				return sink.Outcome{}, errors.New("not today")
			}
			var o sink.Outcome
			for i := range records {
				if header.Get(&records[i], header.ID) == "e250" {
					o.Refused = append(o.Refused, sink.Refusal{Index: i, Err: errors.New("too long")})
				}
			}
			return o, nil
		}
		metrics, stop := b.startTo(sink.Service{Many: w}, b.log, sinks.Options{Batch: 100})
		b.wait(time.Minute)
		stop()
		writes, _, claims := w.told()
		failed := writes[2]
		if !slices.Equal(failed, writes[3][:len(failed)]) {
			t.Errorf("after a failure other records came: %v, %v", failed[0], writes[3][0])
		}
		if got := slices.Concat(slices.Delete(writes, 2, 3)...); !slices.Equal(got, want) {
			t.Errorf("%d records in %d writes are not those of the topic", len(got), len(writes))
		}
		if dead := b.dead(); len(dead) != 1 || header.Get(&dead[0], header.Event) != "e250" || header.Get(&dead[0], header.Error) != "refused: too long" || header.Get(&dead[0], header.Attempts) != "1" {
			t.Errorf("dead letters %v", dead)
		}
		var fresh observe.Snapshot
		if fresh.Add(&metrics.Fresh); fresh.Count != 999 || fresh.Quantile(0.01) < time.Minute || fresh.Quantile(1) > 70*time.Second {
			t.Errorf("%d records were %v to %v old", fresh.Count, fresh.Quantile(0.01), fresh.Quantile(1))
		}
		if len(writes) < 10 || len(writes) > 14 || metrics.Delivered.Load() != 999 || metrics.Refused.Load() != 1 || metrics.Failures.Load() != 1 || claims != 2 {
			t.Errorf("%d writes, %d claims, %d delivered", len(writes), claims, metrics.Delivered.Load())
		}
	})
}

func TestWriterThatIsDownCostsFewCallsAndNoDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 2000 {
			b.write(int32(i%2), fmt.Sprint("k", i%100), fmt.Sprint("e", i), time.Now())
		}
		back, w := time.Now().Add(10*time.Minute), &database{}
		w.answer = func(int, []stream.Record) (sink.Outcome, error) {
			if time.Now().Before(back) {
				return sink.Outcome{}, errors.New("connection refused")
			}
			return sink.Outcome{}, nil
		}
		metrics, stop := b.startTo(sink.Service{Many: w}, b.log, sinks.Options{Batch: 100})
		defer stop()
		time.Sleep(9 * time.Minute)
		if writes, _, _ := w.told(); len(writes) > 300 || !metrics.Resting.Load() {
			t.Errorf("%d calls in 9 minutes, resting: %v", len(writes), metrics.Resting.Load())
		}
		if n := metrics.Waiting.Load(); n > 2*2*2100 || metrics.Pauses.Load() != 2 { // one of each partition
			t.Errorf("%d records are held after %d pauses", n, metrics.Pauses.Load())
		}
		time.Sleep(2 * time.Minute)
		b.wait(time.Minute)
		if dead := b.dead(); len(dead) > 0 || metrics.Delivered.Load() != 2000 || metrics.Resting.Load() {
			t.Errorf("%d dead letters, %d delivered", len(dead), metrics.Delivered.Load())
		}
	})
}

func TestBatchThatIsNotTakenForTooLongIsDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 30 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
		}
		w := &database{}
		w.answer = func(_ int, records []stream.Record) (sink.Outcome, error) {
			if header.Get(&records[0], header.ID) == "e10" {
				return sink.Outcome{}, errors.New("out of order")
			}
			return sink.Outcome{}, nil
		}
		metrics, stop := b.startTo(sink.Service{Many: w}, slow(b.log, time.Minute), sinks.Options{Batch: 10, Expire: time.Hour})
		defer stop()
		time.Sleep(59 * time.Minute)
		if n := len(b.dead()); n > 0 || metrics.Delivered.Load() != 10 {
			t.Fatalf("%d dead letters, %d delivered", n, metrics.Delivered.Load())
		}
		b.wait(10 * time.Minute)
		if dead := b.dead(); len(dead) != 10 || metrics.Delivered.Load() != 20 {
			t.Errorf("%d dead letters, %d delivered", len(dead), metrics.Delivered.Load())
		}
		if _, before, _ := w.told(); before[len(before)-1] > 0 { // a position of the Writer would pass them
			t.Errorf("the write behind dead letters began with %d records before it that were not committed", before[len(before)-1])
		}
	})
}

// TestRecordsBehindARefusedOneWaitForItsDeadLetter has a Writer that stops at each
// record that it refuses, the last of a write among them.
func TestRecordsBehindARefusedOneWaitForItsDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 100 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
		}
		w := &database{takes: time.Millisecond}
		w.answer = func(_ int, records []stream.Record) (o sink.Outcome, _ error) {
			for i := range records {
				if records[i].Offset%10 == 9 {
					return sink.Outcome{Refused: []sink.Refusal{{Index: i, Err: errors.New("too long")}}, Stopped: true}, nil
				}
			}
			return o, nil
		}
		metrics, stop := b.startTo(sink.Service{Many: w}, slow(b.log, time.Second), sinks.Options{Batch: 20})
		b.wait(time.Minute)
		stop()
		if dead := b.dead(); len(dead) != 10 || header.Get(&dead[9], header.Event) != "e99" || metrics.Delivered.Load() != 90 {
			t.Errorf("%d dead letters, %d delivered", len(dead), metrics.Delivered.Load())
		}
		writes, before, _ := w.told()
		for i, ids := range writes {
			if ids[0] != fmt.Sprintf("e%d", 10*i) || before[i] > 0 {
				t.Errorf("write %d began with %s, with %d records before it that were not committed", i, ids[0], before[i])
			}
		}
	})
}

// TestWriterIsToldOfDurableCommitsOnly has records come while commits are under way.
func TestWriterIsToldOfDurableCommitsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := &database{log: b.log}
		_, stop := b.startTo(sink.Service{Many: w}, slow(b.log, 100*time.Millisecond), sinks.Options{})
		for i := range 200 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
			time.Sleep(5 * time.Millisecond)
		}
		b.wait(time.Minute)
		stop()
		writes, before, _ := w.told()
		if w.wrong != nil {
			t.Error(w.wrong)
		}
		if len(writes) < 100 || slices.Max(before) == 0 {
			t.Errorf("%d writes, up to %d records before one were not committed: no commit was under way", len(writes), slices.Max(before))
		}
	})
}

func TestOffsetsMoveOverRefusedRecordsWithTheirLettersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const records = 40
		for i := range records {
			p := stream.Partition{Topic: "freezes"}
			b.ok(b.log.Append(t.Context(), stream.Record{Partition: p, Value: make([]byte, 500<<10), Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%d", i)}}}))
		}
		w := &database{}
		w.answer = func(_ int, records []stream.Record) (o sink.Outcome, _ error) {
			for i := range records {
				o.Refused = append(o.Refused, sink.Refusal{Index: i, Err: errors.New("too long")})
			}
			return o, nil
		}
		_, stop := b.startTo(sink.Service{Many: w}, b.log, sinks.Options{BatchBytes: 64 << 20, Wait: time.Second})
		b.wait(time.Minute)
		letters := b.dead() // of one write, and more than a commit holds
		stop()
		if writes, _, _ := w.told(); len(letters) != records || len(writes) != 1 {
			t.Errorf("%d dead letters after %d writes", len(letters), len(writes))
		}
	})
}

func TestWriterThatAnotherOneOwnsJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := &database{}
		metrics, stop := b.startTo(sink.Service{Many: w}, b.log, sinks.Options{Wait: time.Second})
		defer stop()
		for i := range 20 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
			time.Sleep(100 * time.Millisecond)
			if i == 12 {
				w.mu.Lock()
				w.owners[stream.Partition{Topic: "freezes"}]++
				w.mu.Unlock()
			}
		}
		b.wait(time.Minute)
		if writes, _, _ := w.told(); metrics.Rejoined.Load() != 1 || metrics.Delivered.Load() != 20 || len(writes) > 4 || len(b.dead()) > 0 {
			t.Errorf("joined again %d times, %d delivered in %d writes", metrics.Rejoined.Load(), metrics.Delivered.Load(), len(writes))
		}
	})
}
