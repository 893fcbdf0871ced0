package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

func TestOptionsOutOfBoundsAreRefusedWithAReason(t *testing.T) {
	for want, o := range map[string]Options{
		"SegmentBytes is 1, less than 16384: a segment holds many frames":                              {SegmentBytes: 1},
		"SegmentBytes is 2147483648, more than 1073741824: recovery reads":                             {SegmentBytes: 2 << 30},
		"GroupInterval is 3600000000000, more than 60000000000: every append waits this long":          {GroupInterval: time.Hour},
		"GroupEvents is -1, less than 1":                                                               {GroupEvents: -1},
		"GroupBytes is 2097152, more than 1048576: a group is one frame":                               {GroupBytes: 2 << 20, MaxFrameBytes: 1 << 20},
		"QueueBytes is 1024, less than 16777216: the largest append waits in it":                       {QueueBytes: 1 << 10},
		"CheckpointBytes is 2199023255552, more than 1099511627776: a crash repeats this much work":    {CheckpointBytes: 2 << 40},
		"CheckpointInterval is 7200000000000, more than 3600000000000: a crash repeats this much work": {CheckpointInterval: 2 * time.Hour},
		"RetainBytes is 1024, less than 67108864: whole files are deleted":                             {RetainBytes: 1 << 10},
		"MaxFrameBytes is 67108865, more than 67108864: a frame lies in one segment":                   {MaxFrameBytes: 64<<20 + 1},
		"MaxRecordBytes is 67108864, more than 16777216: a record lies in one frame":                   {MaxRecordBytes: 64 << 20},
		"StateMemoryBytes is 1, less than 65536: the changes of a step must fit":                       {StateMemoryBytes: 1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestQueueIsBounded holds the frame in flight: so much waits for the next, and
// appends beyond it wait outside, until their context ends or there is room.
func TestQueueIsBounded(t *testing.T) {
	g := newGate(frameSync)
	o := small(vfs.Faulty(vfs.NewMemory(), g.decide))
	o.MaxFrameBytes, o.QueueBytes = 4<<10, 8<<10
	l := newLog(t, o)
	s, _ := join(t, l)
	g.shut.Store(true)
	const n = 20
	done := make(chan error, n)
	for i := range n {
		go func() {
			done <- l.Append(context.Background(), record(events, fmt.Sprint(i, strings.Repeat("q", 1500))))
		}()
	}
	<-g.held
	eventually(t, "a full queue", func() bool {
		l.queue.mu.Lock()
		defer l.queue.mu.Unlock()
		return l.queue.freed != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Append(ctx, record(events, strings.Repeat("q", 3000))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("append to a full queue: %v", err)
	}
	pending := s.Commit(step(0, "steps have room"))
	if st := l.Stats(); st.QueuedBytes > o.QueueBytes+1024 || st.Queued < 3 || st.Limits.QueueBytes != o.QueueBytes {
		t.Fatalf("%d requests of %d bytes wait, the limit is %d", st.Queued, st.QueuedBytes, st.Limits.QueueBytes)
	}
	close(g.release)
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := values(t, l, events, 0); len(got) != n || l.Stats().QueuedBytes != 0 {
		t.Fatalf("%d records, %+v", len(got), l.Stats())
	}
}

// TestStateThatOutrunsItsCheckpointHoldsCommits holds the checkpoint back: the
// state grows to its limit and a quarter, and then commits wait for the
// checkpoint.
func TestStateThatOutrunsItsCheckpointHoldsCommits(t *testing.T) {
	g := newGate(func(c vfs.Call) bool { return c.Kind == vfs.Sync && strings.HasSuffix(c.Path, ".sst") })
	o := small(vfs.Faulty(vfs.NewMemory(), g.decide))
	o.StateMemoryBytes, o.CheckpointBytes = 64<<10, 1<<40
	l := newLog(t, o)
	s, _ := join(t, l)
	g.shut.Store(true)
	go func() { _ = l.store.Checkpoint(t.Context(), l.applied.Load(), true) }()
	<-g.held
	commit := func(step int) *stream.Pending {
		st := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{events: 0}}
		for i := range 8 {
			st.Changes = append(st.Changes, stream.Change{Partition: events, Key: fmt.Append(nil, step, i), Value: make([]byte, 1000)})
		}
		return s.Commit(st)
	}
	steps := 0
	for ; !l.store.Full(); steps++ {
		if err := commit(steps).Wait(t.Context()); err != nil || steps > 100 {
			t.Fatalf("step %d: %v, %d bytes of state", steps, err, l.Stats().State.Bytes)
		}
	}
	pending := commit(steps)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := pending.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("step %d is not held: %v, %d bytes of state", steps, err, l.Stats().State.Bytes)
	}
	if used := l.Stats().State.Bytes; used < o.StateMemoryBytes*5/4 || used > o.StateMemoryBytes*9/4 {
		t.Fatalf("%d bytes of state, the limit is %d", used, o.StateMemoryBytes)
	}
	close(g.release)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range steps + 1 {
		if v, err := l.space("g", events).Get(fmt.Append(nil, i, 7)); err != nil || len(v) != 1000 {
			t.Fatalf("key of step %d: %d bytes, %v", i, len(v), err)
		}
	}
}
