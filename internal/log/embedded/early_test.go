package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// joinEarly returns a member of group g that reads early.
func joinEarly(t testing.TB, l *Log) stream.EarlyReader {
	t.Helper()
	s, _ := join(t, l)
	early := s.(stream.EarlyReader)
	early.ReadEarly(true)
	return early
}

// appending appends values in a goroutine, and returns how that ended.
func appending(ctx context.Context, l *Log, values ...string) <-chan error {
	done := make(chan error, 1)
	go func() {
		var records []stream.Record
		for _, v := range values {
			records = append(records, record(events, v))
		}
		done <- l.Append(ctx, records...)
	}()
	return done
}

// receive polls until it has n records.
func receive(t testing.TB, s stream.Member, n int) (got []stream.Record) {
	t.Helper()
	for len(got) < n {
		b, err := s.Poll(t.Context(), n-len(got))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Records...)
	}
	return got
}

func valuesOf(records []stream.Record) (values []string) {
	for _, r := range records {
		values = append(values, string(r.Value))
	}
	return values
}

// wantUndecided fails where one of what waits for a sync was decided.
func wantUndecided(t *testing.T, appended <-chan error, pending *stream.Pending) {
	t.Helper()
	select {
	case err := <-appended:
		t.Fatalf("append returned before the sync: %v", err)
	case <-pending.Done():
		t.Fatal("the step was decided before the sync")
	default:
	}
}

// TestInputsReadEarlyAndTheirStepAreSeenByNobodyBeforeTheSync holds the sync of
// their frame back and looks everywhere.
func TestInputsReadEarlyAndTheirStepAreSeenByNobodyBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(frameSync)
		disk := vfs.NewMemory()
		o := small(vfs.Faulty(disk, g.decide))
		o.GroupInterval = 300 * time.Millisecond // the step is awaited: it shares the frame
		l := newLog(t, o)
		s := joinEarly(t, l)
		other, err := l.Join(t.Context(), "readers", "events", "scores")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Poll(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		tails := map[stream.Partition]*cursor{}
		for _, p := range []stream.Partition{events, scores} {
			if tails[p], err = l.newCursor(p, 0, make(chan struct{}, 1)); err != nil {
				t.Fatal(err)
			}
		}
		before, frames := dump(t, l), l.Stats().Frames
		appended := appendingWhenShut(t, g, l, "a", "b")
		if got := receive(t, s, 2); got[0].Offset != 0 || got[1].Offset != 1 || string(got[0].Value) != "a" || string(got[1].Value) != "b" {
			t.Fatalf("read early: %+v", got)
		}
		pending := s.Commit(step(2, "x"))
		<-g.held
		other.Wake()
		batch, err := other.Poll(t.Context(), 10)
		if err != nil || len(batch.Records) > 0 {
			t.Fatalf("a member that did not ask read %v, %v", batch.Records, err)
		}
		for p, tail := range tails {
			if got, err := tail.read(nil, 10); err != nil || len(got) > 0 {
				t.Fatalf("a tail of %v read %v, %v", p, got, err)
			}
		}
		if got := dump(t, l); got != before {
			t.Fatalf("before the sync the log holds\n%swant\n%s", got, before)
		}
		wantUndecided(t, appended, pending)
		crashed := mustOpen(t, small(disk.Crash(nil)))
		if got := dump(t, crashed); got != before {
			t.Fatalf("after a crash the log holds\n%swant\n%s", got, before)
		}
		crashed.Close()
		close(g.release)
		if err := errors.Join(<-appended, pending.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if st := l.Stats(); st.FusedSteps != 1 || st.Frames != frames+1 {
			t.Fatalf("%d frames, %d steps fused", st.Frames-frames, st.FusedSteps)
		}
		if got := values(t, l, scores, 0); !slices.Equal(got, []string{"xx"}) {
			t.Fatalf("%q", got)
		}
		wantWithdrawn(t, l)
	})
}

// wantWithdrawn fails where what was read early stays beside what is durable.
func wantWithdrawn(t *testing.T, l *Log) {
	t.Helper()
	eventually(t, "the end of reading early", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.topics["events"].parts[0].early == nil
	})
}

// appendingWhenShut is appending into a frame whose sync will be held.
func appendingWhenShut(t *testing.T, g *gate, l *Log, values ...string) <-chan error {
	t.Helper()
	g.shut.Store(true)
	return appending(t.Context(), l, values...)
}

// TestSlowMemberHoldsAFrameForAnIntervalAtMost reads early and commits late, in
// virtual time: that is waited for once, and again when it was quick.
func TestSlowMemberHoldsAFrameForAnIntervalAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 5 * time.Millisecond
		o := small(vfs.NewMemory())
		o.GroupInterval = interval
		l := newLog(t, o)
		s := joinEarly(t, l)
		time.Sleep(time.Second)
		for i, c := range []struct{ computes, holds time.Duration }{
			{time.Hour, interval}, {time.Second, 0}, {time.Microsecond, 0}, {time.Microsecond, time.Microsecond}, {interval + 1, interval}, {0, 0},
		} {
			go func() {
				receive(t, s, 1)
				time.Sleep(c.computes)
				if err := commit(t, s, step(stream.Offset(i+1), "x")); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			start := time.Now()
			if err := l.Append(t.Context(), record(events, fmt.Sprint(i))); err != nil || time.Since(start) != c.holds {
				t.Errorf("append %d took %v, want %v, %v", i, time.Since(start), c.holds, err)
			}
			time.Sleep(2 * time.Hour)
		}
		if st := l.Stats(); st.FusedSteps != 1 {
			t.Errorf("%d fused steps", st.FusedSteps)
		}
		l.Close()
	})
}

// TestMemberThatDoesNotCommitIsNotAwaited takes a record, finds it not worth a
// step yet, and polls again: the frame is written at once.
func TestMemberThatDoesNotCommitIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{Logger: quiet, CheckpointInterval: time.Hour, GroupInterval: time.Second, fs: vfs.NewMemory()})
		s := joinEarly(t, l)
		polling, stop := context.WithCancel(t.Context())
		polled := make(chan struct{})
		go func() {
			defer close(polled)
			for polling.Err() == nil {
				_, _ = s.Poll(polling, 1)
			}
		}()
		time.Sleep(time.Minute)
		start := time.Now()
		if err := <-appending(t.Context(), l, "a", "b", "c"); err != nil || time.Since(start) > 0 {
			t.Errorf("append took %v, %v", time.Since(start), err)
		}
		stop()
		<-polled
		time.Sleep(time.Minute)
		start = time.Now()
		s.Pause(events)
		s.Wake()
		if _, err := s.Poll(t.Context(), 1); err != nil {
			t.Error(err)
		}
		polling, stop = context.WithTimeout(t.Context(), time.Hour)
		go func() {
			synctest.Wait() // until it is in Poll
			if err := l.Append(t.Context(), record(events, "paused")); err != nil || time.Since(start) > 0 {
				t.Errorf("append beside a paused member took %v, %v", time.Since(start), err)
			}
			stop()
		}()
		if b, err := s.Poll(polling, 1); err != context.Canceled || len(b.Records) > 0 {
			t.Errorf("paused, and read %v, %v", b.Records, err)
		}
		l.Close()
	})
}

// TestRefusedAppendsAreNotReadEarly fills the disk while a member reads early.
func TestRefusedAppendsAreNotReadEarly(t *testing.T) {
	var full atomic.Bool
	o := crashOptions(vfs.Faulty(vfs.NewMemory(), func(c vfs.Call) (o vfs.Outcome) {
		if full.Load() && c.Kind == vfs.Create && strings.Contains(c.Path, spareSuffix) {
			o.Err = vfs.ENOSPC
		}
		return o
	}))
	o.CheckpointBytes = 1 << 40
	l := newLog(t, o)
	s := joinEarly(t, l)
	eventually(t, "spares", func() bool { n, _ := l.spares.count(); return n == spareFiles })
	full.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	read := make(chan []string)
	go func() {
		var got []string
		for {
			b, err := s.Poll(ctx, 100)
			got = append(got, valuesOf(b.Records)...)
			if err != nil {
				read <- got
				return
			}
		}
	}()
	var want []string
	refused := 0
	for i := 0; refused < 20; i++ {
		value := fmt.Sprint(i, strings.Repeat("v", 3000))
		switch err := l.Append(t.Context(), record(events, value)); {
		case err == nil:
			want = append(want, value)
		case errors.Is(err, ErrFull):
			refused++
		default:
			t.Fatal(err)
		}
	}
	_, next, err := l.Offsets(t.Context(), events)
	if err != nil || int(next) != len(want) {
		t.Fatalf("%d records, want %d, %v", next, len(want), err)
	}
	stop()
	if got := <-read; !slices.Equal(got, want) {
		t.Fatalf("read %d records, %d were taken", len(got), len(want))
	}
}

// TestRepeatedAndCancelledAppendsAreNotReadEarly queues them behind a frame
// whose sync is held back: what is left of each is decided before it is read.
func TestRepeatedAndCancelledAppendsAreNotReadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(frameSync)
		o := small(vfs.Faulty(vfs.NewMemory(), g.decide))
		o.GroupInterval = 300 * time.Millisecond
		l := newLog(t, o)
		s := joinEarly(t, l)
		first := appendingWhenShut(t, g, l, "first")
		if got := valuesOf(receive(t, s, 1)); !slices.Equal(got, []string{"first"}) {
			t.Fatalf("%q", got)
		}
		<-g.held
		once := func(number int64, values ...string) <-chan error {
			waiting, _, _, _ := l.queue.size()
			done := make(chan error, 1)
			go func() {
				var records []stream.Record
				for _, v := range values {
					records = append(records, record(events, v))
				}
				_, err := l.AppendOnce(t.Context(), "p", number, records...)
				done <- err
			}()
			eventually(t, "a queued append", func() bool { n, _, _, _ := l.queue.size(); return n > waiting })
			return done
		}
		a := once(1, "1", "2")
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := appending(ctx, l, "cancelled")
		eventually(t, "a queued append", func() bool { n, _, _, _ := l.queue.size(); return n == 2 })
		b, c := once(1, "1 again", "2 again", "3", "4", "5"), once(3, "3 again")
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		go func() {
			eventually(t, "a member that waits", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return s.(*member).idle
			})
			close(g.release)
		}()
		got := receive(t, s, 5)
		if _, next, _ := l.Offsets(t.Context(), events); next != 1 {
			t.Fatalf("what was to be read early is durable: %d", next)
		}
		if err := errors.Join(commit(t, s, step(6, "x")), <-first, <-a, <-b, <-c); err != nil {
			t.Fatal(err)
		}
		want := []string{"first", "1", "2", "3", "4", "5"}
		if all := values(t, l, events, 0); !slices.Equal(all, want) || !slices.Equal(valuesOf(got), want[1:]) || got[4].Offset != 5 {
			t.Fatalf("read %q, the log holds %q", valuesOf(got), all)
		}
	})
}

// TestAppendThatIsReadEarlyIsNotTakenBack cancels one in the frame in flight.
func TestAppendThatIsReadEarlyIsNotTakenBack(t *testing.T) {
	g := newGate(frameSync)
	l := newLog(t, small(vfs.Faulty(vfs.NewMemory(), g.decide)))
	s := joinEarly(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	g.shut.Store(true)
	appended := appending(ctx, l, "a")
	receive(t, s, 1)
	cancel()
	<-g.held
	pending := s.Commit(step(1, "x"))
	wantUndecided(t, appended, pending)
	close(g.release)
	if err := errors.Join(<-appended, pending.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := values(t, l, events, 0); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("%q", got)
	}
}

// TestFencedMembersStepIsRefusedAndItsInputsStay fences a member that read
// early: before its step, and while that is queued behind the inputs.
func TestFencedMembersStepIsRefusedAndItsInputsStay(t *testing.T) {
	for _, queued := range []bool{false, true} {
		g := newGate(frameSync)
		l := newLog(t, small(vfs.Faulty(vfs.NewMemory(), g.decide)))
		s := joinEarly(t, l)
		appended := appendingWhenShut(t, g, l, "a", "b")
		receive(t, s, 2)
		<-g.held // the step was awaited in vain
		fence := func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			s.(*member).group.remove(s.(*member), stream.ErrFenced)
		}
		if !queued {
			fence()
		}
		pending := s.Commit(step(2, "x"))
		if queued {
			fence()
		}
		heir, err := l.Join(t.Context(), "g", "events")
		if err != nil {
			t.Fatal(err)
		}
		close(g.release)
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
		if err := pending.Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
			t.Fatalf("step of a fenced member: %v", err)
		}
		heir.(stream.EarlyReader).ReadEarly(true)
		if got := valuesOf(receive(t, heir, 2)); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("queued %v: the heir reads %q", queued, got)
		}
		if _, next, _ := l.Offsets(t.Context(), scores); next != 0 {
			t.Fatal("the output of a fenced member is there")
		}
	}
}

// TestStepOfAMemberFencedWhileItsFrameWaitsIsRefused fences a member whose step
// is queued while its frame waits for that of another.
func TestStepOfAMemberFencedWhileItsFrameWaitsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(vfs.NewMemory())
		o.GroupInterval = time.Second
		l := newLog(t, o)
		s := joinEarly(t, l)
		joined, err := l.Join(t.Context(), "other", "events")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := joined.Poll(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		other := joined.(stream.EarlyReader)
		other.ReadEarly(true)
		read := make(chan struct{})
		go func() {
			defer close(read)
			receive(t, other, 1)
		}()
		eventually(t, "a member that waits", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return other.(*member).idle
		})
		appended := appending(t.Context(), l, "a")
		receive(t, s, 1)
		<-read
		pending := s.Commit(step(1, "x"))
		l.mu.Lock()
		s.(*member).group.remove(s.(*member), stream.ErrFenced)
		l.mu.Unlock()
		err = commit(t, other, stream.Transaction{Offsets: map[stream.Partition]stream.Offset{events: 1}})
		if err := errors.Join(err, <-appended); err != nil {
			t.Fatal(err)
		}
		if err := pending.Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
			t.Fatalf("step of a fenced member: %v", err)
		}
		if _, next, _ := l.Offsets(t.Context(), scores); next != 0 || l.Stats().FusedSteps != 1 {
			t.Fatalf("%d outputs, %d steps fused", next, l.Stats().FusedSteps)
		}
	})
}

// TestFailedWriteDecidesNothingThatWasReadEarly fails the frame whose inputs a
// member has, and whose step is in it or behind it.
func TestFailedWriteDecidesNothingThatWasReadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []vfs.Kind{vfs.Write, vfs.Sync} {
			var fail atomic.Bool
			mem := vfs.NewMemory()
			o := small(vfs.Faulty(mem, func(c vfs.Call) (o vfs.Outcome) {
				if c.Kind == kind && strings.HasSuffix(c.Path, segmentSuffix) && fail.Swap(false) {
					o.Err = vfs.EIO
				}
				return o
			}))
			o.GroupInterval = 300 * time.Millisecond
			l := newLog(t, o)
			s := joinEarly(t, l)
			before := dump(t, l)
			fail.Store(true)
			appended := appending(t.Context(), l, "a")
			receive(t, s, 1)
			if err := commit(t, s, step(1, "x")); !errors.Is(err, vfs.EIO) {
				t.Fatalf("%v: commit: %v", kind, err)
			}
			if err := <-appended; !errors.Is(err, vfs.EIO) {
				t.Fatalf("%v: append: %v", kind, err)
			}
			wantWithdrawn(t, l)
			if got := dump(t, l); got != before {
				t.Fatalf("%v: the log holds\n%swant\n%s", kind, got, before)
			}
			l.Close()
			after := mustOpen(t, small(mem)) // what the failed call left counts, whole
			in, out := values(t, after, events, 0), values(t, after, scores, 0)
			if len(in) != len(out) {
				t.Fatalf("%v: inputs %q, outputs %q", kind, in, out)
			}
			after.Close()
		}
	})
}

// TestOffsetsReadEarlyHoldBesideOutputs appends to a partition that gets the
// outputs of steps too, some of which are refused.
func TestOffsetsReadEarlyHoldBesideOutputs(t *testing.T) {
	l := newLog(t, small(vfs.NewMemory()))
	s := joinEarly(t, l)
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for i := range 100 {
				if err := l.Append(t.Context(), record(events, fmt.Sprint("input ", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for i := range 100 {
			other, err := l.Join(t.Context(), "other", "scores")
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := other.Poll(t.Context(), 1); err != nil {
				t.Error(err)
			}
			pending := other.Commit(stream.Transaction{
				Outputs: []stream.Record{record(events, fmt.Sprint("output ", i))},
				Offsets: map[stream.Partition]stream.Offset{scores: 0},
			})
			if i%2 == 0 {
				other.Close()
			}
			if err := pending.Wait(t.Context()); err != nil && !errors.Is(err, stream.ErrClosed) {
				t.Error(err)
			}
			other.Close()
		}
	})
	ended := make(chan struct{})
	go func() { defer close(ended); group.Wait(); s.Wake() }()
	var read []string
	for done := false; !done; {
		select {
		case <-ended:
			_, next, err := l.Offsets(t.Context(), events)
			if done = err == nil && int(next) == len(read); done {
				continue
			}
		default:
		}
		b, err := s.Poll(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			if int(r.Offset) != len(read) {
				t.Fatalf("offset %d, want %d", r.Offset, len(read))
			}
			read = append(read, string(r.Value))
		}
		if len(b.Records) > 0 {
			if err := commit(t, s, stream.Transaction{Offsets: map[stream.Partition]stream.Offset{events: stream.Offset(len(read))}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := values(t, l, events, 0); !slices.Equal(got, read) {
		t.Fatalf("read\n%q\nthe log holds\n%q", read, got)
	}
}
