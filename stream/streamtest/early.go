package streamtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// earlyCases run if members can read early, with members that do.
var earlyCases = []testCase{
	{"RecordsReadEarlyKeepTheirOffsets", earlyOffsets},
	{"NoStepIsAheadOfItsInputs", earlySteps},
	{"ReadingEarlyCanEnd", earlyEnds},
}

// readsEarly reports whether the members of log can read early. It closes log.
func readsEarly(t *testing.T, log stream.Log) bool {
	h := newHarness(t, log)
	defer h.close()
	h.topic("early", 1)
	member, err := h.Join(h.ctx, "early", "early")
	h.ok(err)
	_, ok := member.(stream.EarlyReader)
	h.ok(member.Close())
	return ok
}

// crowd appends n times from each of several goroutines: with Append, with repeated numbers, and
// with contexts that end during the append.
func (h *harness) crowd(p stream.Partition, n int) {
	var group sync.WaitGroup
	defer group.Wait()
	for w := range 3 {
		group.Go(func() {
			for i := range n {
				if err := h.Append(h.ctx, records(p, fmt.Sprint(w, "-", i), "with another")...); err != nil {
					h.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for i := range n { // each number three times
			if _, err := h.AppendOnce(h.ctx, "numbered", int64(max(1, i-1)), records(p, "a", "b", "c")...); err != nil {
				h.Error(err)
			}
		}
	})
	group.Go(func() {
		for i := range n {
			ctx, cancel := context.WithCancel(h.ctx)
			group.Go(cancel)
			if err := h.Append(ctx, record(p, fmt.Sprint("cancelled-", i))); err != nil && !errors.Is(err, context.Canceled) {
				h.Error(err)
			}
		}
	})
}

// copyRecords commits a copy of each record of in until stop is closed and all records are copied.
// It returns the records that it read.
func (h *harness) copyRecords(m *member, in, out stream.Partition, stop <-chan struct{}) []stream.Record {
	h.Helper()
	for done := 0; ; done = len(m.records) {
		select {
		case <-stop:
			if _, next, err := h.inspect.Offsets(h.ctx, in); err != nil || int(next) == done {
				h.ok(err)
				return m.records
			}
		default:
		}
		m.poll()
		var outputs []stream.Record
		for _, r := range m.records[done:] {
			outputs = append(outputs, stream.Record{Partition: out, Time: r.Time, Key: r.Key, Value: fmt.Append(nil, r.Offset, " ", string(r.Value))})
		}
		if len(outputs) > 0 {
			m.commit(step(in, m.next[in], outputs))
		}
	}
}

func earlyOffsets(h *harness) {
	in, out := h.inOut()
	m := h.join("g", "in")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		h.crowd(in, 20)
	}()
	read := h.copyRecords(m, in, out, stop)
	durable := h.tail(in, 0, len(read))
	copies := h.tail(out, 0, len(read))
	for i, r := range durable {
		if got := read[i]; got.Offset != r.Offset || string(got.Value) != string(r.Value) || string(got.Key) != string(r.Key) || !got.Time.Equal(r.Time) {
			h.Fatalf("read %d %q, and it became %d %q", got.Offset, got.Value, r.Offset, r.Value)
		}
		if want := fmt.Sprint(r.Offset, " ", string(r.Value)); string(copies[i].Value) != want {
			h.Fatalf("copy %d is %q, want %q", i, copies[i].Value, want)
		}
	}
}

// earlySteps inspects the log while a member reads early and commits.
func earlySteps(h *harness) {
	in, out := h.inOut()
	m := h.join("g", "in")
	stop := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	go func() {
		defer close(stop)
		h.crowd(in, 20)
	}()
	looking.Go(func() {
		for h.ctx.Err() == nil {
			_, outputs, err := h.inspect.Offsets(h.ctx, out)
			committed, committedErr := h.inspect.Committed(h.ctx, h.prefix+"g", in)
			_, inputs, inputsErr := h.inspect.Offsets(h.ctx, in)
			if err := errors.Join(err, committedErr, inputsErr); err != nil || outputs > committed || committed > inputs {
				h.Errorf("%d outputs, %d committed, %d inputs, %v", outputs, committed, inputs, err)
				return
			}
			r, found, err := h.inspect.Peek(h.ctx, in, inputs)
			_, after, afterErr := h.inspect.Offsets(h.ctx, in)
			if err := errors.Join(err, afterErr); err != nil || found && r.Offset >= after {
				h.Errorf("peeked at %d, and then there are %d inputs, %v", r.Offset, after, err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	h.copyRecords(m, in, out, stop)
}

func earlyEnds(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	h.append(in, "a")
	m.receive(1)
	m.Member.(stream.EarlyReader).ReadEarly(false)
	done := make(chan error, 1)
	go func() { done <- h.Append(h.ctx, record(in, "b")) }()
	m.receive(2)
	if _, next, err := h.inspect.Offsets(h.ctx, in); err != nil || next != 2 {
		h.Fatalf("a record was read that is not durable: the next is %d, %v", next, err)
	}
	h.ok(<-done)
	if got := values(m.records); got != "a b" {
		h.Fatalf("read %s", got)
	}
}
