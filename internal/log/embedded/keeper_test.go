package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// eventually waits for work of the log's goroutines.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// fill appends enough to use n segments more.
func fillSegments(t testing.TB, l *Log, n int) {
	t.Helper()
	used := func() int { // of one moment: a segment retired between two looks would count twice
		stats := l.Stats()
		return stats.Segments + int(stats.RetiredSegments)
	}
	for want := used() + n; used() < want; {
		appendValues(t, l, events, strings.Repeat("f", 4000))
	}
}

func retainOptions(fs vfs.FS) Options {
	o := crashOptions(fs)
	o.RetainBytes = 3 * o.SegmentBytes
	return o
}

func first(t testing.TB, l *Log) stream.Offset {
	t.Helper()
	offset, _, err := l.Offsets(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

func TestRetentionTakesWholeSegmentsAndRecyclesThem(t *testing.T) {
	fs := vfs.NewMemory()
	l := newLog(t, retainOptions(fs))
	fillSegments(t, l, 12)
	if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "retention", func() bool { signal(l.kick); return l.Stats().Segments == 3 && l.Stats().RetiredSegments > 8 })
	from := first(t, l)
	if from == 0 {
		t.Fatal("nothing was retired")
	}
	for _, err := range l.Tail(t.Context(), events, from-1) {
		if !errors.Is(err, stream.ErrTrimmed) {
			t.Fatalf("tail below the first offset: %v", err)
		}
	}
	for _, below := range []stream.Offset{0, from - 1} {
		if r, found, err := l.Peek(t.Context(), events, below); err != nil || !found || r.Offset != from {
			t.Fatalf("peek below the first offset: %d, %v, %v; want %d", r.Offset, found, err, from)
		}
	}
	if got := values(t, l, events, from); len(got) == 0 {
		t.Fatal("nothing is left")
	}
	s, b := join(t, l)
	if b.Assigned[0].Next != from || len(b.Records) == 0 || b.Records[0].Offset != from {
		t.Fatalf("a new group starts at %d, want %d", b.Assigned[0].Next, from)
	}
	s.Close()
	want := dump(t, l)
	crashed := fs.Crash(nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := fs.List("data/log")
	if len(names) > 4+spareMost+1 {
		t.Fatalf("files: %v", names)
	}
	for _, fs := range []vfs.FS{fs, crashed} {
		l := mustOpen(t, crashOptions(fs))
		if got := dump(t, l); got != want {
			t.Fatalf("reopened:\n%s\nwant:\n%s", got, want)
		}
		l.Close()
	}
}

func TestRetentionByAge(t *testing.T) {
	o := crashOptions(vfs.NewMemory())
	o.RetainAge = 20 * time.Millisecond
	l := newLog(t, o)
	fillSegments(t, l, 5)
	if err := l.store.Checkpoint(t.Context(), l.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "retention", func() bool { return l.Stats().Segments == 1 })
}

// TestRetentionSparesWhatReadersNeed holds the log back by a tail, by a group
// that committed, by a live member, and by a checkpoint that is missing.
func TestRetentionSparesWhatReadersNeed(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, l *Log) (release func()){
		"tail": func(t *testing.T, l *Log) func() {
			c, err := l.newCursor(events, 0, make(chan struct{}, 1))
			if err != nil {
				t.Fatal(err)
			}
			return c.close
		},
		"member": func(t *testing.T, l *Log) func() {
			s, _ := join(t, l)
			s.Pause(events)
			s.(*member).shares[0].cursor.next.Store(0)
			return func() { s.Close() }
		},
		"group": func(t *testing.T, l *Log) func() {
			s, _ := join(t, l)
			if err := commit(t, s, step(0, "x")); err != nil {
				t.Fatal(err)
			}
			s.Close()
			return func() {
				s, _ := join(t, l)
				_, next, _ := l.Offsets(t.Context(), events)
				if err := commit(t, s, step(next, "y")); err != nil {
					t.Fatal(err)
				}
				s.Close()
			}
		},
		"recovery": func(t *testing.T, l *Log) func() {
			l.store.Checkpoint(t.Context(), l.applied.Load(), true)
			return func() { l.store.Checkpoint(t.Context(), l.applied.Load(), true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := retainOptions(vfs.NewMemory())
			if name == "recovery" {
				o.CheckpointBytes = 1 << 40
			}
			l := newLog(t, o)
			appendValues(t, l, events, "first")
			release := hold(t, l)
			fillSegments(t, l, 8)
			l.store.Checkpoint(t.Context(), min(l.applied.Load(), map[bool]uint64{true: 4, false: 1 << 60}[name == "recovery"]), true)
			if err := (&keeper{l}).retire(); err != nil {
				t.Fatal(err)
			}
			if got := first(t, l); got != 0 {
				t.Fatalf("records up to %d were taken", got)
			}
			release()
			eventually(t, "retention", func() bool {
				l.store.Checkpoint(t.Context(), l.applied.Load(), true)
				signal(l.kick)
				return first(t, l) > 0
			})
		})
	}
}

func TestReleaseUnreadLetsRetentionPassAGroup(t *testing.T) {
	o := retainOptions(vfs.NewMemory())
	o.ReleaseUnread = true
	l := newLog(t, o)
	appendValues(t, l, events, "first")
	s, _ := join(t, l)
	if err := commit(t, s, step(0, "x")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	fillSegments(t, l, 8)
	eventually(t, "retention", func() bool { signal(l.kick); return first(t, l) > 0 })
	_, b := join(t, l)
	if len(b.Records) == 0 || b.Records[0].Offset != b.Assigned[0].Next || b.Assigned[0].Next == 0 {
		t.Fatalf("after the gap: %+v", b.Assigned)
	}
}

// waitingStep commits, in virtual time, until a step waits for space, and returns it
// and how many did not.
func waitingStep(t *testing.T, s stream.Member) (pending *stream.Pending, steps int) {
	t.Helper()
	for ; ; steps++ {
		pending = s.Commit(step(stream.Offset(steps), strings.Repeat("s", 1500)))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		err := pending.Wait(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return pending, steps
		}
		if err != nil {
			t.Fatalf("step on a full disk: %v", err)
		}
	}
}

// TestFullDiskRefusesAppendsAndHoldsSteps fills the disk: appends are refused
// before anything is written, steps go on into the reserve and then wait, and
// reads go on.
func TestFullDiskRefusesAppendsAndHoldsSteps(t *testing.T) {
	synctest.Test(t, refuseAndHold)
}

func refuseAndHold(t *testing.T) {
	var full atomic.Bool
	var asked atomic.Int64
	mem := vfs.NewMemory()
	decide := func(c vfs.Call) (o vfs.Outcome) {
		if full.Load() && c.Kind == vfs.Create && strings.Contains(c.Path, spareSuffix) {
			o.Err = vfs.ENOSPC
			full.Store(asked.Add(1) < 1000) // no time passes in a log that asks on and on
		}
		return o
	}
	o := crashOptions(vfs.Faulty(mem, decide))
	o.CheckpointBytes = 1 << 40
	l := newLog(t, o)
	s, _ := join(t, l)
	eventually(t, "spares", func() bool { n, _ := l.spares.count(); return n == spareFiles })
	full.Store(true)
	value := strings.Repeat("v", 3000)
	var err error
	for range 100 {
		if err = l.Append(t.Context(), record(events, value)); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, vfs.ENOSPC) {
		t.Fatalf("append on a full disk: %v", err)
	}
	if n, _ := l.spares.count(); n != 1 {
		t.Fatalf("appends left %d spares, want the one that is reserved for steps", n)
	}
	frames := l.Stats().Frames
	if err := l.Append(t.Context(), record(events, value)); !errors.Is(err, ErrFull) || l.Stats().Frames != frames {
		t.Fatalf("append on a full disk: %v", err)
	}
	pending, steps := waitingStep(t, s)
	if steps < 2 {
		t.Fatalf("%d steps went into the reserve", steps)
	}
	if got := values(t, l, events, 0); len(got) == 0 {
		t.Fatal("no reads on a full disk")
	}
	if err := l.Append(t.Context(), record(events, value)); !errors.Is(err, ErrFull) {
		t.Fatalf("append while a step waits: %v", err)
	}
	before := asked.Load()
	time.Sleep(time.Second)
	if n := asked.Load() - before; n > 10 || before > 100 {
		t.Fatalf("a full disk is asked for space %d times a second, and %d times before", n, before)
	}
	full.Store(false)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatalf("the step that waited: %v", err)
	}
	eventually(t, "appends", func() bool { return l.Append(t.Context(), record(events, "again")) == nil })
	want := dump(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, crashOptions(mem))
	defer l.Close()
	if got := dump(t, l); got != want {
		t.Fatal("reopened with something else")
	}
}

// TestAppendThatWaitsForASpareIsRefusedWhenTheDiskIsFull finds that out while
// the append is in the writer's hands already.
func TestAppendThatWaitsForASpareIsRefusedWhenTheDiskIsFull(t *testing.T) {
	var full atomic.Bool
	making, known := make(chan struct{}, 1), make(chan struct{})
	o := crashOptions(vfs.Faulty(vfs.NewMemory(), func(c vfs.Call) (o vfs.Outcome) {
		if full.Load() && c.Kind == vfs.Create && strings.Contains(c.Path, spareSuffix) {
			signal(making)
			<-known
			o.Err = vfs.ENOSPC
		}
		return o
	}))
	o.CheckpointBytes = 1 << 40
	l := newLog(t, o)
	eventually(t, "spares", func() bool { n, _ := l.spares.count(); return n == spareFiles })
	full.Store(true)
	last := make(chan error)
	go func() {
		for {
			if err := l.Append(t.Context(), record(events, strings.Repeat("v", 3000))); err != nil {
				last <- err
				return
			}
		}
	}()
	<-making
	eventually(t, "an append that waits for a spare", func() bool {
		spares, _ := l.spares.count()
		requests, _, _, _ := l.queue.size()
		return spares == 0 && requests == 0
	})
	time.Sleep(50 * time.Millisecond) // it has filled the segment by then
	close(known)
	if err := <-last; !errors.Is(err, ErrFull) || !errors.Is(err, vfs.ENOSPC) {
		t.Fatalf("append: %v", err)
	}
}

// TestCloseEndsAStepThatWaitsForSpace never finds room.
func TestCloseEndsAStepThatWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		decide := func(c vfs.Call) (o vfs.Outcome) {
			if full.Load() && c.Kind == vfs.Create && strings.Contains(c.Path, spareSuffix) {
				o.Err = vfs.ENOSPC
			}
			return o
		}
		l := newLog(t, crashOptions(vfs.Faulty(vfs.NewMemory(), decide)))
		s, _ := join(t, l)
		full.Store(true)
		pending, _ := waitingStep(t, s)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := pending.Wait(t.Context()); !errors.Is(err, stream.ErrClosed) {
			t.Fatalf("the step that waited: %v", err)
		}
	})
}

// TestReadersKeepUpWhileSegmentsAreRecycled tails everything while retention
// works at full speed: a reader never misses a record.
func TestReadersKeepUpWhileSegmentsAreRecycled(t *testing.T) {
	o := retainOptions(vfs.NewMemory())
	o.RingBytes = 1 // all reads are cold
	l := newLog(t, o)
	const n = 600
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			next := stream.Offset(0)
			for r, err := range l.Tail(t.Context(), events, 0) {
				if err != nil || r.Offset != next || !strings.HasPrefix(string(r.Value), fmt.Sprint(next, " ")) {
					done <- fmt.Errorf("record %d: offset %d %.20q, %w", next, r.Offset, r.Value, err)
					return
				}
				if next++; next == n {
					break
				}
			}
			done <- nil
		}()
	}
	eventually(t, "readers", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.topics["events"].parts[0].readers) == cap(done)
	})
	for i := range n {
		appendValues(t, l, events, fmt.Sprint(i, " ", strings.Repeat("r", 800)))
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "retention", func() bool { signal(l.kick); return l.Stats().RetiredSegments > 10 })
}

func TestStatsQuantiles(t *testing.T) {
	var c counters
	for i := range 100 {
		c.frame(1, time.Duration(i+1)*time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{.5: 50 * time.Millisecond, .99: 99 * time.Millisecond} {
		if got := c.quantile(q); got > want || got < want*7/8-time.Millisecond {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
	if !slices.IsSorted([]int{bucket(1), bucket(7), bucket(8), bucket(15), bucket(16), bucket(1 << 40)}) {
		t.Error("buckets are out of order")
	}
}
