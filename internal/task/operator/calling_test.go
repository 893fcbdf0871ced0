package operator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// fault is an error with a blame.
type fault struct {
	blame model.Blame
	busy  bool
	down  bool
}

func (fault) Error() string        { return "no score" }
func (f fault) Blame() model.Blame { return f.blame }
func (f fault) Busy() bool         { return f.busy }
func (f fault) Outage() bool       { return f.down }

// asker calls an endpoint for one event, or for several in a call.
type asker struct {
	t        *testing.T
	calling  *operator.Calling
	endpoint *control.Endpoint
	down     bool // it is not ready
}

func newAsker(t *testing.T) *asker {
	endpoint, err := control.NewEndpoint(control.EndpointOptions{Concurrency: control.ConcurrencyOptions{Start: 16}})
	if err != nil {
		t.Fatal(err)
	}
	return &asker{t: t, calling: &operator.Calling{Endpoint: endpoint}, endpoint: endpoint}
}

func (a *asker) begin() control.Call {
	a.t.Helper()
	call, admission, _ := a.endpoint.Begin(time.Unix(0, 0), 0)
	if admission != control.Admitted {
		a.t.Fatal(admission)
	}
	return call
}

// end ends a call that answered some events and failed for others, and returns their
// attempts.
func (a *asker) end(call control.Call, answered int, err error, failed ...*control.Outlier) (attempts []int, outcome control.Outcome) {
	var failures []operator.Failure
	for _, o := range failed {
		failures = append(failures, operator.Failure{Err: err, Outlier: o, Ready: !a.down})
	}
	outcome = a.calling.Judge(call, answered, failures)
	a.endpoint.Observe(time.Unix(0, 0), call, outcome)
	a.endpoint.End(time.Unix(0, 0), call)
	for i := range failures {
		attempts = append(attempts, failures[i].Attempts)
	}
	return attempts, outcome
}

func (a *asker) fail(o *control.Outlier, err error) (int, control.Outcome) {
	attempts, outcome := a.end(a.begin(), 0, err, o)
	return attempts[0], outcome
}

func (a *asker) answer(n int) {
	for range n {
		a.end(a.begin(), 1, nil)
	}
}

var failing = fault{blame: model.BlameModel}

func TestAnswerThatDoesNotFitCountsAgainstItsEvent(t *testing.T) {
	a := newAsker(t)
	var o control.Outlier
	for want := 1; want <= 20; want++ {
		if got, outcome := a.fail(&o, fault{blame: model.BlameAnswer}); got != want || outcome != control.Answered {
			t.Fatalf("%d attempts after %d answers, and the endpoint is told %d", got, want, outcome)
		}
	}
	if !a.endpoint.Breaker.Steady() {
		t.Error("the breaker counts them")
	}
}

// TestEventThatFailsWhileOthersSucceedIsBlamed calls for one event at a time.
func TestEventThatFailsWhileOthersSucceedIsBlamed(t *testing.T) {
	for _, err := range []error{failing, fault{blame: model.BlameWay}, fault{blame: model.BlameWay, busy: true}} {
		a := newAsker(t)
		var o control.Outlier
		if got, outcome := a.fail(&o, err); got != 0 || outcome == control.Abandoned {
			t.Errorf("%v: %d attempts, and outcome %d, where nothing is known", err, got, outcome)
		}
		a.answer(100)
		for want := 2; want <= 4; want++ { // the others are called no more
			if got, outcome := a.fail(&o, err); got != want || outcome != control.Abandoned {
				t.Errorf("%v: %d attempts, want %d, and outcome %d", err, got, want, outcome)
			}
		}
		if got := a.endpoint.Breaker.Stats(); got.Faults != 1 {
			t.Errorf("%v: the breaker counts %d faults of one event", err, got.Faults)
		}
	}
}

func TestOutageCountsAgainstNoEvent(t *testing.T) {
	a := newAsker(t)
	a.answer(100)
	older := a.begin() // before the outage, and answered within it
	outliers := make([]control.Outlier, 50)
	for round := range 20 {
		for i := range outliers {
			call, admission, _ := a.endpoint.Begin(time.Unix(int64(round)*100, 0), 0)
			if admission != control.Admitted {
				continue
			}
			if got, outcome := a.end(call, 0, failing, &outliers[i]); got[0] != 0 || outcome != control.Faulted && outcome != control.Repeated {
				t.Fatalf("event %d has %d attempts in round %d, outcome %d", i, got[0], round, outcome)
			}
		}
		if round == 0 {
			a.end(older, 1, nil)
		}
	}
}

// TestOutageAfterACountedFailureCountsAgainstNoEvent has an event fail once while others
// are answered. Then no connection can be made, and no other event is called for.
func TestOutageAfterACountedFailureCountsAgainstNoEvent(t *testing.T) {
	a := newAsker(t)
	a.endpoint.Breaker, _ = control.NewBreaker(control.BreakerOptions{Failures: 1 << 30, Rate: 1})
	var o control.Outlier
	a.fail(&o, failing)
	a.answer(20)
	if got, _ := a.fail(&o, failing); got != 2 {
		t.Fatalf("%d attempts, want 2", got)
	}
	for range 1000 {
		if got, outcome := a.fail(&o, fault{blame: model.BlameWay, down: true}); got != 0 || outcome != control.Faulted {
			t.Fatalf("%d attempts within an outage, outcome %d", got, outcome)
		}
	}
	if got, _ := a.fail(&o, failing); got != 3 {
		t.Errorf("%d attempts after the outage, want 3", got)
	}
}

// TestQuietOutageCountsAgainstNoEvent has an event fail once while others are answered.
// Then the endpoint is not ready, answers no call, and no other event is called for.
func TestQuietOutageCountsAgainstNoEvent(t *testing.T) {
	for _, err := range []error{failing, fault{blame: model.BlameWay}, fault{blame: model.BlameWay, busy: true}} {
		for _, restarted := range []bool{false, true} {
			a := newAsker(t)
			var o control.Outlier
			a.fail(&o, err)
			a.answer(100)
			if got, _ := a.fail(&o, err); got != 2 {
				t.Fatalf("%v: %d attempts, want 2", err, got)
			}
			if restarted { // within the outage
				a, o = newAsker(t), control.NewOutlier(2)
			}
			a.down = true
			for range 1000 {
				if got, outcome := a.fail(&o, err); got != 0 || outcome == control.Abandoned || outcome == control.Answered {
					t.Fatalf("%v: %d attempts within an outage, outcome %d", err, got, outcome)
				}
			}
			a.down = false
			a.answer(100)
			calls, got := 0, 0
			for ; got < 3 && calls < 10; calls++ {
				got, _ = a.fail(&o, err)
			}
			if got != 3 || calls > 1 && !restarted {
				t.Errorf("%v: %d attempts by %d calls after the outage, want 3; restarted %v", err, got, calls, restarted)
			}
		}
	}
}

// TestModelIsAskedOnlyWhereThatDecides counts the questions whether a model is ready.
func TestModelIsAskedOnlyWhereThatDecides(t *testing.T) {
	a, asked, ready := newAsker(t), 0, error(nil)
	a.calling.Ready = func(context.Context) error {
		asked++
		return ready
	}
	var o control.Outlier
	confirm := func(err error) bool { return a.calling.Confirm(t.Context(), a.begin(), o, err, time.Now()) }
	if confirm(failing) || asked != 0 {
		t.Errorf("asked %d times for an event that has not failed", asked)
	}
	a.fail(&o, failing)
	a.answer(1)
	a.fail(&o, failing)
	if !confirm(failing) || asked != 1 {
		t.Errorf("asked %d times, want 1", asked)
	}
	for _, err := range []error{nil, fault{blame: model.BlameAnswer}, fault{blame: model.BlameWay, down: true}} {
		if confirm(err) || asked != 1 {
			t.Errorf("%v: asked %d times, want 1", err, asked)
		}
	}
	if ready = errors.New("no"); confirm(failing) || asked != 2 {
		t.Errorf("asked %d times of a model that is not ready, want 2", asked)
	}
	if a.answer(1); confirm(failing) || asked != 2 {
		t.Errorf("asked %d times after an answer, want 2", asked)
	}
	if got := a.endpoint.Readiness.Stats(); got != (control.ReadinessStats{Asked: 2, Not: 1}) {
		t.Errorf("%+v", got)
	}
	if a.calling.Ready = nil; !confirm(failing) {
		t.Error("a model that cannot say is not ready")
	}
}

// TestEventThatFailsAloneStopsNobody has one event that fails again and again before any
// other is called for.
func TestEventThatFailsAloneStopsNobody(t *testing.T) {
	for _, err := range []error{failing, fault{blame: model.BlameWay}, fault{blame: model.BlameWay, busy: true}} {
		a := newAsker(t)
		var o control.Outlier
		limit := 0
		for i := range 20 {
			if got, _ := a.fail(&o, err); got != 0 {
				t.Fatalf("%v: %d attempts, where nothing is known", err, got)
			}
			if i == 0 {
				limit = a.endpoint.Concurrency.Stats().Limit
			}
		}
		if got := a.endpoint.Concurrency.Stats().Limit; got != limit {
			t.Errorf("%v: a limit of %d after 20 failures of an event, %d after one", err, got, limit)
		}
		a.answer(1) // the breaker is closed
	}
}

// TestLastEventOfAStreamEnds has an event fail again and again at an endpoint that is
// ready and answered others before. No answer follows, so each failure counts a tenth.
func TestLastEventOfAStreamEnds(t *testing.T) {
	for _, err := range []error{failing, fault{blame: model.BlameWay}, fault{blame: model.BlameWay, busy: true}} {
		a := newAsker(t)
		a.answer(100)
		var o control.Outlier
		for i := range 30 {
			if got, _ := a.fail(&o, err); got != (i+1)/10 {
				t.Fatalf("%v: %d attempts after %d failures", err, got, i+1)
			}
		}
	}
}

// TestOutageOfAReadyEndpointCostsOneEvent has several events fail at an endpoint that says
// that it is ready. The first may be poison. The others wait, also when the first has ended.
func TestOutageOfAReadyEndpointCostsOneEvent(t *testing.T) {
	a := newAsker(t)
	a.answer(100)
	var first control.Outlier
	others := make([]control.Outlier, 3)
	for range 5 {
		_, _ = a.fail(&first, failing)
	}
	for i := range 1000 {
		if got, _ := a.fail(&others[i%len(others)], failing); got != 0 {
			t.Fatalf("%d attempts after %d failures of several events", got, i+1)
		}
		if got, _ := a.fail(&first, failing); got != 0 {
			t.Fatalf("%d attempts of the first, beside others", got)
		}
	}
	a.answer(100) // it works again: now it shows which is poison
	for want := 2; want <= 3; want++ {
		if got, _ := a.fail(&first, failing); got != want {
			t.Errorf("%d attempts after another answer, want %d", got, want)
		}
	}
}

// TestBurstOfFaultsCostsNoEvent has events that failed once by chance fail again and again
// in bursts of faults of an endpoint that says that it is ready, beside others that fail for
// the first time: alone, or in calls that fail as a whole.
func TestBurstOfFaultsCostsNoEvent(t *testing.T) {
	for _, rows := range []int{1, 2} {
		a := newAsker(t)
		a.endpoint.Breaker, _ = control.NewBreaker(control.BreakerOptions{Failures: 1 << 30, Rate: 1})
		a.answer(100)
		var unlucky [12]control.Outlier
		for i := range unlucky {
			a.fail(&unlucky[i], failing)
			a.answer(20)
		}
		for range 3 { // bursts
			others := make([]*control.Outlier, rows)
			for i := range others {
				others[i] = new(control.Outlier)
			}
			for range 20 {
				a.end(a.begin(), 0, failing, others...)
				for i := range unlucky {
					if got, _ := a.fail(&unlucky[i], failing); got > 2 {
						t.Fatalf("%d rows a call: %d attempts of event %d within a burst", rows, got, i)
					}
				}
			}
		}
	}
}

// TestFailuresThatChanceExplainsMakeNoPoison has an event fail at an endpoint that has
// answered few others, and at one that often fails before it answers.
func TestFailuresThatChanceExplainsMakeNoPoison(t *testing.T) {
	few, often := newAsker(t), newAsker(t)
	often.endpoint.Breaker, _ = control.NewBreaker(control.BreakerOptions{Failures: 1 << 30, Rate: 1})
	few.answer(7)
	for range 100 {
		var o control.Outlier
		for range 3 {
			often.fail(&o, failing)
		}
		often.answer(1)
		often.endpoint.Answered(&o)
	}
	for _, a := range []*asker{few, often} {
		var o control.Outlier
		for range 1000 {
			if got, _ := a.fail(&o, failing); got != 0 {
				t.Fatalf("%d attempts", got)
			}
		}
	}
}

// TestPoisonBeforeAnyAnswerStopsNobody has five events fail at once, of the first eight
// calls. The others are answered later.
func TestPoisonBeforeAnyAnswerStopsNobody(t *testing.T) {
	a := newAsker(t)
	var calls []control.Call
	for range 8 {
		calls = append(calls, a.begin())
	}
	for _, call := range calls[:5] {
		a.end(call, 0, failing, new(control.Outlier))
	}
	for _, call := range calls[5:] {
		a.end(call, 1, nil)
	}
	a.answer(1)
}

// TestChanceCountsAgainstFewEvents has half of the calls fail, and then a twentieth
// refused by load: events that are asked for again until they are answered.
func TestChanceCountsAgainstFewEvents(t *testing.T) {
	for _, kind := range []struct {
		err  error
		each uint64 // of so many calls one fails
		most int    // attempts
	}{{failing, 2, 6}, {fault{blame: model.BlameWay, busy: true}, 20, 2}} {
		a := newAsker(t)
		a.endpoint.Breaker, _ = control.NewBreaker(control.BreakerOptions{Failures: 1 << 30, Rate: 1})
		random, most := uint64(1), 0
		for range 20_000 {
			var o control.Outlier
			for {
				if random = random*6364136223846793005 + 1442695040888963407; random>>33%kind.each > 0 {
					break
				}
				attempts, _ := a.fail(&o, kind.err)
				most = max(most, attempts)
			}
			a.endpoint.Answered(&o)
			a.answer(1)
		}
		if most > kind.most {
			t.Errorf("1 of %d calls fails: an event has %d attempts", kind.each, most)
		}
	}
}

// TestOneOfACallIsBlamedAndAWholeCallIsNot compares the events of a call with each
// other. Those of a call that fails as a whole are called for alone.
func TestOneOfACallIsBlamedAndAWholeCallIsNot(t *testing.T) {
	a := newAsker(t)
	var o control.Outlier
	if got, outcome := a.end(a.begin(), 63, failing, &o); got[0] != 1 || outcome != control.Answered {
		t.Errorf("%d attempts of one of 64, outcome %d", got, outcome)
	}
	var p, q control.Outlier
	call := a.begin()
	a.answer(10)
	if got, outcome := a.end(call, 0, failing, &p, &q); got[0] != 0 || outcome != control.Faulted || !p.Alone() {
		t.Errorf("%d attempts of a whole call, outcome %d, alone %v", got, outcome, p.Alone())
	}
	var r control.Outlier
	if a.end(a.begin(), 0, failing, &r, &q); r.Alone() {
		t.Error("events of a call that no answer follows are called for alone")
	}
}

func TestSourceOfContentIsNobodysFault(t *testing.T) {
	a := newAsker(t)
	var o control.Outlier
	for range 10 {
		if got, outcome := a.fail(&o, fault{blame: model.BlameSource}); got != 0 || outcome != control.Answered {
			t.Errorf("%d attempts, outcome %d", got, outcome)
		}
	}
	if c := a.calling; c.Exhausted(errors.New("no"), 0) || !c.Exhausted(fault{blame: model.BlameRows}, 0) || !c.Exhausted(failing, 3) {
		t.Error("a refusal is exhausted at once, others after their attempts")
	}
}
