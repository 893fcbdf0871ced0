package embedded

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// gate holds back the first call that match accepts after it was shut.
type gate struct {
	match         func(vfs.Call) bool
	shut          atomic.Bool
	held, release chan struct{}
}

func newGate(match func(vfs.Call) bool) *gate {
	return &gate{match: match, held: make(chan struct{}), release: make(chan struct{})}
}

func (g *gate) decide(c vfs.Call) (o vfs.Outcome) {
	if g.match(c) && g.shut.Swap(false) {
		close(g.held)
		select {
		case <-g.release:
		case <-time.After(5 * time.Minute): // the test failed: let it end
		}
	}
	return o
}

func frameSync(c vfs.Call) bool {
	return c.Kind == vfs.Sync && strings.HasSuffix(c.Path, segmentSuffix)
}

// TestFailedSyncStopsTheLog fails one write or sync of a segment. Nothing is
// acknowledged after it, reads go on, and a reopened log takes both outcomes.
func TestFailedSyncStopsTheLog(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.Write, vfs.Sync} {
		var fail atomic.Bool
		mem := vfs.NewMemory()
		l := newLog(t, small(vfs.Faulty(mem, func(c vfs.Call) (o vfs.Outcome) {
			if c.Kind == kind && strings.HasSuffix(c.Path, segmentSuffix) && fail.Swap(false) {
				o.Err = vfs.EIO
			}
			return o
		})))
		appendValues(t, l, events, "a")
		s, _ := join(t, l)
		fail.Store(true)
		if err := commit(t, s, step(1, "x")); !errors.Is(err, vfs.EIO) {
			t.Fatalf("%v: commit: %v", kind, err)
		}
		if err := l.Append(t.Context(), record(events, "b")); !errors.Is(err, vfs.EIO) {
			t.Fatalf("%v: append after a failed sync: %v", kind, err)
		}
		if got := values(t, l, events, 0); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("%v: %q", kind, got)
		}
		if _, next, _ := l.Offsets(t.Context(), scores); next != 0 {
			t.Fatalf("%v: an output that is not durable is visible", kind)
		}
		if v, err := l.space("g", events).Get([]byte("last")); v != nil || err != nil {
			t.Fatalf("%v: state that is not durable is visible: %q, %v", kind, v, err)
		}
		if err := l.Close(); !errors.Is(err, vfs.EIO) {
			t.Fatalf("%v: close: %v", kind, err)
		}
		after := mustOpen(t, small(mem))
		if got := values(t, after, events, 0); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("%v: %q after reopening", kind, got)
		}
		// What a reopened log shows is durable, whatever the failed sync did.
		disk := mustOpen(t, small(mem.Crash(nil)))
		if got, want := dump(t, disk), dump(t, after); got != want {
			t.Fatalf("%v: after a crash:\n%s\nshown before:\n%s", kind, got, want)
		}
		disk.Close()
		appendValues(t, after, events, "c")
		after.Close()
	}
}

// TestUnsyncedFrameIsInvisible holds a sync back and looks.
func TestUnsyncedFrameIsInvisible(t *testing.T) {
	g := newGate(frameSync)
	l := newLog(t, small(vfs.Faulty(vfs.NewMemory(), g.decide)))
	appendValues(t, l, events, "a")
	s, _ := join(t, l)
	g.shut.Store(true)
	pending := s.Commit(step(1, "x"))
	<-g.held
	select {
	case <-pending.Done():
		t.Fatal("acknowledged before the sync")
	default:
	}
	_, next, _ := l.Offsets(t.Context(), scores)
	committed, _ := l.Committed(t.Context(), "g", events)
	value, err := l.space("g", events).Get([]byte("last"))
	if next != 0 || committed != 0 || value != nil || err != nil {
		t.Fatalf("before the sync: next %d, committed %d, state %q, %v", next, committed, value, err)
	}
	close(g.release)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestHeirWaitsForTheStepBeingWritten fences a member while its step is being
// synced: the heir starts after that step.
func TestHeirWaitsForTheStepBeingWritten(t *testing.T) {
	g := newGate(frameSync)
	l := newLog(t, small(vfs.Faulty(vfs.NewMemory(), g.decide)))
	appendValues(t, l, events, "a", "b")
	s, _ := join(t, l)
	g.shut.Store(true)
	pending := s.Commit(step(1, "x"))
	<-g.held
	s.Close()
	heir, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	heir.Wake()
	if b, err := heir.Poll(t.Context(), 10); err != nil || len(b.Assigned) != 0 {
		t.Fatalf("during the sync: %+v, %v", b, err)
	}
	close(g.release)
	b, err := heir.Poll(t.Context(), 10)
	if err != nil || len(b.Assigned) != 1 || b.Assigned[0].Next != 1 {
		t.Fatalf("after the sync: %+v, %v", b, err)
	}
	if v, err := b.Assigned[0].State.Get([]byte("last")); err != nil || string(v) != "x" {
		t.Fatalf("state: %q, %v", v, err)
	}
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEnoughEventsDoNotWaitForTheInterval appends beside each other what is
// enough for a frame, long before its time.
func TestEnoughEventsDoNotWaitForTheInterval(t *testing.T) {
	o := small(vfs.NewMemory())
	if err := newLog(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	const appends = 5
	o.GroupInterval, o.GroupEvents = time.Minute, 2*appends // an append counts as an event too
	l := mustOpen(t, o)
	defer l.Close()
	appendValues(t, l, events, "the first")
	before := l.Stats().Frames
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	var group errgroup.Group
	for range appends {
		group.Go(func() error { return l.Append(ctx, record(events, "v")) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Frames - before; n != 1 {
		t.Errorf("%d frames, want one for all", n)
	}
}
