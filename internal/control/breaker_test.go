package control_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/control"
)

// dawn is when the clocks of these tests begin.
var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// calls lets calls through a breaker that is to let them, and ends them.
func calls(t *testing.T, b *control.Breaker, now time.Time, outcomes ...control.Outcome) {
	t.Helper()
	for i, outcome := range outcomes {
		call, wait := b.Begin(now)
		if wait > 0 {
			t.Fatalf("call %d is to wait for %v", i, wait)
		}
		b.Observe(now, call, outcome)
	}
}

func wantWait(t *testing.T, b *control.Breaker, now time.Time, want time.Duration) {
	t.Helper()
	if _, wait := b.Begin(now); wait != want {
		t.Fatalf("at %v a call is to wait for %v, want %v", now.Sub(dawn), wait, want)
	}
}

func TestFiveFaultsInARowOpenTheBreaker(t *testing.T) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	const well, bad = control.Answered, control.Faulted
	calls(t, b, dawn, bad, bad, bad, bad, well, bad, bad, bad, bad)
	if got := b.Stats(); got.State != control.Closed || !got.Since.IsZero() {
		t.Fatalf("after four faults in a row: %+v", got)
	}
	calls(t, b, dawn.Add(time.Second), bad)
	wantWait(t, b, dawn.Add(time.Second), 30*time.Second)
	wantWait(t, b, dawn.Add(30*time.Second), time.Second)
	want := control.BreakerStats{State: control.Open, Since: dawn.Add(time.Second), Opened: 1, Refused: 2, Calls: 10, Faults: 9}
	if diff := cmp.Diff(want, b.Stats()); diff != "" {
		t.Error(diff)
	}
}

func TestHalfOfTheCallsFailingOpensTheBreaker(t *testing.T) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	const well, bad = control.Answered, control.Faulted
	for range 9 {
		calls(t, b, dawn, well, bad)
	}
	calls(t, b, dawn, well)
	if got := b.Stats().State; got != control.Closed {
		t.Fatalf("%v after 19 calls", got)
	}
	calls(t, b, dawn.Add(9*time.Second), bad)
	if got := b.Stats().State; got != control.Open {
		t.Fatalf("%v after 20 calls, of which 10 failed", got)
	}
}

func TestOldFaultsAreForgotten(t *testing.T) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	const well, bad = control.Answered, control.Faulted
	for i := range 1000 { // one of two fails, but there are 18 calls in 10 s
		calls(t, b, dawn.Add(time.Duration(i)*10*time.Second/18), []control.Outcome{well, bad}[i%2])
	}
	if got := b.Stats().State; got != control.Closed {
		t.Fatal(got)
	}
	calls(t, b, dawn.Add(time.Hour*24*365*200), well) // the tenths passed are not gone through
}

func TestOnlyFaultsOfTheModelCount(t *testing.T) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	for range 1000 {
		calls(t, b, dawn, control.Abandoned)
	}
	calls(t, b, dawn, control.Faulted, control.Faulted, control.Faulted, control.Faulted, control.Abandoned)
	if got := b.Stats().State; got != control.Closed {
		t.Fatal(got)
	}
	calls(t, b, dawn, control.Faulted) // what was abandoned was no answer either
	if got := b.Stats().State; got != control.Open {
		t.Fatal(got)
	}
}

// openBreaker returns a breaker that opened at dawn, and a call from before.
func openBreaker(t *testing.T) (*control.Breaker, control.BreakerCall) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	before, _ := b.Begin(dawn)
	for range 5 {
		calls(t, b, dawn, control.Faulted)
	}
	return b, before
}

func TestOneProbeAfterHalfAMinuteDecides(t *testing.T) {
	b, _ := openBreaker(t)
	now := dawn.Add(30*time.Second - 1)
	wantWait(t, b, now, 1)
	now = now.Add(1)
	probe, wait := b.Begin(now)
	if wait != 0 {
		t.Fatalf("the probe is to wait for %v", wait)
	}
	wantWait(t, b, now, 100*time.Millisecond)
	b.Observe(now.Add(time.Second), probe, control.Faulted)
	wantWait(t, b, now.Add(time.Second), 30*time.Second)

	now = now.Add(31 * time.Second)
	probe, _ = b.Begin(now)
	wantWait(t, b, now, 100*time.Millisecond)
	b.Observe(now, probe, control.Answered)
	for range 4 { // of a row that begins anew
		calls(t, b, now, control.Faulted)
	}
	wantWait(t, b, now, 0)
	if got := b.Stats(); got.State != control.Closed || got.Opened != 2 {
		t.Errorf("%+v", got)
	}
}

func TestCallsFromBeforeTheBreakerOpenedDecideNothing(t *testing.T) {
	b, before := openBreaker(t)
	b.Observe(dawn.Add(time.Second), before, control.Answered)
	wantWait(t, b, dawn.Add(time.Second), 29*time.Second)

	now := dawn.Add(30 * time.Second)
	probe, _ := b.Begin(now)
	b.Observe(now, before, control.Faulted)
	b.Observe(now, control.BreakerCall{}, control.Answered)
	wantWait(t, b, now, 100*time.Millisecond)
	b.Observe(now, probe, control.Answered)
	b.Observe(now, probe, control.Abandoned)
	wantWait(t, b, now, 0)
}

func TestProbeThatIsGivenUpOrLostMakesRoomForAnother(t *testing.T) {
	b, _ := openBreaker(t)
	now := dawn.Add(30 * time.Second)
	lost, _ := b.Begin(now)
	b.Observe(now, lost, control.Abandoned)
	first, wait := b.Begin(now)
	if wait != 0 {
		t.Fatalf("after a probe was given up another is to wait for %v", wait)
	}
	wantWait(t, b, now.Add(30*time.Second-1), 100*time.Millisecond)
	now = now.Add(30 * time.Second)
	wantWait(t, b, now, 0)                   // the first was lost
	b.Observe(now, first, control.Abandoned) // which says nothing of the second
	wantWait(t, b, now, 100*time.Millisecond)
	b.Observe(now, first, control.Answered) // late, but an answer
	wantWait(t, b, now, 0)
}

// TestAnswerOfALaterCallTakesFaultsBack has five calls that fail at once, and one that
// began after some of them and is answered later.
func TestAnswerOfALaterCallTakesFaultsBack(t *testing.T) {
	for after := range 6 {
		b, now := must(control.NewBreaker(control.BreakerOptions{})), dawn
		var begun []control.BreakerCall
		for range 6 {
			call, _ := b.Begin(now)
			begun = append(begun, call)
		}
		good := begun[after]
		for _, call := range slices.Delete(begun, after, after+1) {
			b.Observe(now, call, control.Faulted)
		}
		if b.Stats().State != control.Open {
			t.Fatal("five faults do not open it")
		}
		now = now.Add(time.Second)
		b.Observe(now, good, control.Answered)
		want := control.Closed
		if after == 0 {
			want = control.Open // the endpoint failed since
		}
		if got := b.Stats().State; got != want {
			t.Errorf("%v after an answer to a call that began after %d faults", got, after)
		}
		if want == control.Closed {
			calls(t, b, now, slices.Repeat([]control.Outcome{control.Faulted}, after-1)...)
			if b.Stats().State == control.Open {
				t.Errorf("%d faults are left of 5, and %d more open it", 5-after, after-1)
			}
			calls(t, b, now, control.Faulted)
			if b.Stats().State == control.Closed {
				t.Errorf("%d faults are left of 5, and %d more do not open it", 5-after, after)
			}
		}
	}
}

// TestAnEventThatFailsAgainFailsOnlyProbes has one event that fails at a quiet endpoint.
func TestAnEventThatFailsAgainFailsOnlyProbes(t *testing.T) {
	b := must(control.NewBreaker(control.BreakerOptions{}))
	calls(t, b, dawn, append([]control.Outcome{control.Faulted}, slices.Repeat([]control.Outcome{control.Repeated}, 100)...)...)
	if got := b.Stats().State; got != control.Closed {
		t.Fatalf("one event: %v", got)
	}
	calls(t, b, dawn, slices.Repeat([]control.Outcome{control.Faulted}, 4)...)
	wantWait(t, b, dawn, 30*time.Second)
	now := dawn.Add(30 * time.Second)
	calls(t, b, now, control.Repeated)
	wantWait(t, b, now, 30*time.Second)
}

// remembering is a breaker that keeps all calls.
type remembering struct {
	control.BreakerOptions
	epoch   int // of the state
	open    bool
	row     bool // it opened by the row, and no probe has ended since
	half    bool // and a probe was let through
	opened  time.Time
	probed  time.Time // the newest
	history []remembered
	began   time.Time // of tenth 0 of the history, which begins when a probe is answered

	calls, answered int // the number of the newest call, and of the newest that was answered
}

type remembered struct {
	call   int // its number
	tenth  int64
	failed bool
}

func (b *remembering) begin(now time.Time) (epoch int, passes bool) {
	if passes = !b.open || now.Sub(b.opened) >= b.Probe && (!b.half || now.Sub(b.probed) >= b.Probe); passes && b.open {
		if !b.half {
			b.epoch++
		}
		b.half, b.probed = true, now
	}
	return b.epoch, passes
}

func (b *remembering) observe(now time.Time, call, epoch int, failed bool) {
	if !failed {
		b.answered = max(b.answered, call)
	}
	switch {
	case epoch != b.epoch && (failed || !b.open || !b.row || b.faults() >= b.Failures):
		return
	case epoch != b.epoch: // a late answer
		b.open, b.half, b.row = false, false, false
	case b.open && failed:
		b.opened, b.half, b.row = now, false, false
	case b.open:
		b.open, b.half, b.row, b.history, b.began = false, false, false, nil, time.Time{}
	default:
		if b.began.IsZero() {
			b.began = now
		}
		b.history = append(b.history, remembered{call, int64(now.Sub(b.began) / time.Second), failed})
		if !b.judge() {
			return
		}
		b.open, b.opened, b.row = true, now, b.faults() >= b.Failures
	}
	b.epoch++
}

// faults counts those of calls that began after any that was answered.
func (b *remembering) faults() (row int) {
	for _, h := range b.history {
		if h.failed && h.call > b.answered {
			row++
		}
	}
	return row
}

// judge reports whether the breaker is to open.
func (b *remembering) judge() bool {
	count, faults := 0, 0
	last := b.history[len(b.history)-1]
	for _, h := range b.history {
		if h.tenth > last.tenth-10 {
			count++
			if h.failed {
				faults++
			}
		}
	}
	return last.failed && (b.faults() >= b.Failures || count >= b.Calls && float64(faults) >= b.Rate*float64(count))
}

// TestBreakerIsAsItsCommentSays compares a breaker with one that keeps all calls.
func TestBreakerIsAsItsCommentSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := control.BreakerOptions{
			Failures: rapid.IntRange(1, 6).Draw(t, "failures"), Rate: rapid.Float64Range(0.1, 1).Draw(t, "rate"),
			Calls: rapid.IntRange(1, 12).Draw(t, "calls"), Window: 10 * time.Second,
			Probe: rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second}).Draw(t, "probe"),
		}
		type underWay struct {
			call          control.BreakerCall
			number, epoch int
		}
		var (
			b       = must(control.NewBreaker(o))
			twin    = remembering{BreakerOptions: o}
			now     = dawn
			pending []underWay
		)
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond)
			},
			"begin": func(t *rapid.T) {
				call, wait := b.Begin(now)
				epoch, passes := twin.begin(now)
				if passes != (wait == 0) {
					t.Fatalf("a call is to wait for %v, want %v", wait, passes)
				}
				if passes {
					twin.calls++
					pending = append(pending, underWay{call, twin.calls, epoch})
				}
			},
			"observe": func(t *rapid.T) {
				if len(pending) == 0 {
					t.Skip()
				}
				at := rapid.IntRange(0, len(pending)-1).Draw(t, "call")
				p, failed := pending[at], rapid.Bool().Draw(t, "failed")
				pending = append(pending[:at:at], pending[at+1:]...)
				outcome := control.Answered
				if failed {
					outcome = control.Faulted
				}
				b.Observe(now, p.call, outcome)
				twin.observe(now, p.number, p.epoch, failed)
			},
		})
	})
}

func TestMembersShareOneProbe(t *testing.T) {
	b, _ := openBreaker(t)
	now := dawn.Add(30 * time.Second)
	var passed atomic.Int32
	var members sync.WaitGroup
	for range 8 {
		members.Go(func() {
			for range 1000 {
				if _, wait := b.Begin(now); wait == 0 {
					passed.Add(1)
				}
			}
		})
	}
	members.Wait()
	if got := passed.Load(); got != 1 {
		t.Errorf("%d probes at a time", got)
	}
}

func TestOptionsAreRefusedWithReasons(t *testing.T) {
	for _, c := range []struct {
		resolve func() error
		want    string
	}{
		{func() error {
			_, err := control.NewBreaker(control.BreakerOptions{Rate: 1.5, Failures: -1})
			return err
		}, "a rate of 1.5 is out of range"},
		{func() error {
			_, err := control.NewBreaker(control.BreakerOptions{Rate: 1.5, Failures: -1})
			return err
		}, "-1 failures"},
		{func() error { _, err := control.NewBreaker(control.BreakerOptions{Window: 5}); return err }, "a window of 5ns is too short: its tenth must be at least 1ns"},
		{func() error {
			_, err := control.Backoff{Base: time.Second, Max: time.Millisecond}.Resolved()
			return err
		}, "a base of 1s is more than"},
		{func() error { _, err := control.NewConcurrency(control.ConcurrencyOptions{Max: -1}); return err }, "-1 calls"},
		{func() error {
			_, err := new(control.Endpoints).Of("http://here", "m", control.EndpointOptions{Concurrency: control.ConcurrencyOptions{Target: -1}})
			return err
		}, "here, model m: a target"},
		{func() error {
			_, err := control.NewLeases[int](control.LeaseOptions{Timeout: 5 * time.Second, Period: 5 * time.Second})
			return err
		}, "would be called twice"},
		{func() error {
			_, err := control.NewFairQueue[int](control.FairOptions{Weights: [3]int{8, 4, 0}})
			return err
		}, "never be served"},
		{func() error {
			_, err := control.NewFairQueue[int](control.FairOptions{Weights: [3]int{1, 4, 8}})
			return err
		}, "want them to fall"},
		{func() error {
			_, err := control.NewFairQueue[int](control.FairOptions{Max: 5, TenantMax: 6})
			return err
		}, "6 of a tenant"},
	} {
		if err := c.resolve(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func ExampleBreaker() {
	breaker, err := control.NewBreaker(control.BreakerOptions{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 5 {
		call, _ := breaker.Begin(now)
		breaker.Observe(now, call, control.Faulted) // the service answers 500
	}
	_, wait := breaker.Begin(now)
	fmt.Println(breaker.Stats().State, "for", wait)

	now = now.Add(wait)
	probe, _ := breaker.Begin(now)
	fmt.Println(breaker.Stats().State)
	breaker.Observe(now, probe, control.Answered)
	fmt.Println(breaker.Stats().State)
	// Output:
	// open for 30s
	// half-open
	// closed
}
