package control

import (
	"cmp"
	"math"
	"sync"
)

// Outlier decides whether an event or the endpoint causes the failures of the event, by comparison
// with other events (outlier detection). The zero value is an event that has not failed. It has one
// owner.
//
//  1. A failure counts against the event if a later call was answered for another event,
//     because then the endpoint works. Of failures without such an answer, only the
//     newest is remembered.
//  2. After a failure that counted, further ones also count while no other event is
//     called, if the endpoint reports ready after them. They do not count while events
//     fail that had no counted failure: that is an outage.
//     If none of the event's failures counted, a failure at such an endpoint is a tenth
//     of an attempt. This requires that at most a tenth of the earlier events failed,
//     and no other event since the newest answer.
//  3. Failures count fully while at most a tenth of the other events fail. Above that, a
//     failure is log(share)/log(1/1000) of an attempt, because chance explains it. The
//     threshold for a refusal because of load (HTTP 429, 503) is 3 percent instead,
//     because our own calls may cause it.
//
// An event that always fails is called as many times as it has attempts, or a few times more. It is
// called up to 15 times as often if fewer than eight other events were answered since the process
// started. It is called ten times as often if no other event is answered after its first failure.
//
// An outage exhausts no attempts, unless the endpoint reports ready but answers no event. Then it
// may exhaust the attempts of an event with an earlier counted failure, and those of one other
// event. Callers must not pass failures that no single event can cause, such as a refused
// connection.
type Outlier struct {
	failures int
	lonely   int    // failures that count as a tenth
	id       uint64 // id in the ledger; 0 before the first failure that no answer confirms
	counted  bool   // a failure counted by rule 1
	noted    bool   // the ledger has counted its first failure
	told     bool   // the breaker and the limit have counted it
	alone    bool
	first    mark // mark of the call of the first failure
	newest   uint64
}

// NewOutlier returns an event that has used this many attempts.
func NewOutlier(attempts int) Outlier {
	return Outlier{failures: attempts, counted: attempts > 0}
}

// Alone reports whether the event must be called without others: a call of several events failed as
// a whole while another call was answered.
func (o *Outlier) Alone() bool { return o.alone }

// Unconfirmed reports whether a failure of the event counts only if the endpoint is ready. This is
// so if no answer for another event came and no other event fails for the first time.
func (o *Outlier) Unconfirmed(e *Endpoint, call Call) bool {
	tally, answered := e.ledger.now()
	return answered <= o.before(call) && !e.ledger.others(o.id) && (o.counted || tally.answered >= lonelyAnswers)
}

// before returns the number of a call: an answer to a later call shows that the endpoint works.
func (o *Outlier) before(call Call) uint64 {
	if o.newest > 0 {
		return o.newest
	}
	return call.mark.number - 1
}

// Blame counts a failure that the event causes, whatever the results of others. It returns the
// attempts that count against the event.
func (o *Outlier) Blame() (attempts int) {
	o.failures++
	o.counted = true
	return o.failures
}

// Compare counts a failure of the event in a call that was passed to Endpoint.Count. own is false
// if a call of several events failed as a whole. busy means that the endpoint refused the call
// because of load. ready means that the endpoint reported ready after the failure.
//
// Compare returns the attempts that count against the event, 0 if this failure does not count. It
// also returns the outcome for the endpoint: Abandoned if the event explains the failure, and
// Repeated if the endpoint was told of the event and has answered no call since.
func (o *Outlier) Compare(e *Endpoint, call Call, own, busy, ready bool) (attempts int, outcome Outcome) {
	outcome = Faulted
	if busy {
		outcome = Overloaded
	}
	tally, answered := e.ledger.now()
	works := answered > o.before(call)
	o.newest = call.mark.number
	if !works && !o.counted {
		e.ledger.fails(&o.id)
	}
	if !own {
		o.alone = o.alone || works
		return 0, outcome
	}
	others := e.ledger.others(o.id)
	if o.told && !works {
		outcome = Repeated
	}
	o.told = true
	if o.counted && !works && (!ready || others) {
		return 0, outcome
	}
	if o.first.number == 0 || !works && !o.counted {
		o.first = call.mark
	}
	if !works && !o.counted {
		o.failures = 0
		if !others && ready && tally.answered >= lonelyAnswers && tally.failing(call.mark.tally, o.noted) <= chanceOfFaults {
			o.lonely++
		}
	}
	o.failures++
	if o.counted = o.counted || works; !o.counted {
		return o.lonely / lonelyFailures, outcome
	}
	chance := chanceOfFaults
	if busy {
		chance = chanceOfLoad
	}
	weight := 1.0
	if share := tally.failing(o.first.tally, o.noted); share > chance {
		weight = math.Log(share) / math.Log(chance*chance*chance)
	}
	if weight == 1 && !others && (works || e.Breaker.Stats().State == Closed) {
		outcome = Abandoned
		if o.noted {
			o.noted = false
			e.ledger.count(mark{}, 0, -1)
		}
	}
	return max(int(float64(o.failures)*weight+1e-9), o.lonely/lonelyFailures), outcome
}

// Maximum shares of other failing events that do not explain the failures of an event: for faults,
// and for refusals because of load.
const (
	chanceOfFaults = 0.1
	chanceOfLoad   = 0.03
)

// Failures of an event that fails alone, at an endpoint that is ready and has answered other
// events.
const (
	lonelyFailures = 10 // this many count as one attempt
	lonelyAnswers  = 8  // minimum number of other events: the first failure of nine is more than a tenth
)

// ledger counts the results of the events that an endpoint was called for. It is safe for
// concurrent use.
type ledger struct {
	mu       sync.Mutex
	begun    uint64 // number of calls
	answered uint64 // number of the newest call with an answered event
	tally    tally
	before   [2]tally // tallies of at least 16 outcomes ago, and of 16 or more before that
	ids      uint64   // number of ids given to outliers
	alone    uint64   // the first outlier without a counted failure that failed since the newest answer, or 0
	several  bool     // more than one such outlier failed
}

// tally counts events. An event that fails repeatedly counts once until it is answered, and not at
// all if it explains its failures.
type tally struct{ answered, failed int }

// failing returns the share of failures since another tally, without one failure if own is set. It
// is never 0 or 1, because it adds one success and one failure.
func (t tally) failing(since tally, own bool) float64 {
	failed := t.failed - since.failed
	if own {
		failed--
	}
	failed = max(failed, 0)
	return float64(failed+1) / float64(t.answered-since.answered+failed+2)
}

// mark is the state at the start of a call. Its tally is older than the call, so that the last
// calls of a topic can be compared with others.
type mark struct {
	number uint64
	tally  tally
}

func (l *ledger) begin() mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return mark{l.begun, l.before[1]}
}

// others reports whether an event other than that of an outlier, without a counted failure, has
// failed since the newest answer.
func (l *ledger) others(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.several || l.alone != 0 && l.alone != id
}

// fails records a failure of an outlier without a counted failure. It gives the outlier an id if it
// has none.
func (l *ledger) fails(id *uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *id == 0 {
		l.ids++
		*id = l.ids
	}
	l.several = l.several || l.alone != 0 && l.alone != *id
	l.alone = cmp.Or(l.alone, *id)
}

func (l *ledger) now() (tally, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally, l.answered
}

func (l *ledger) count(call mark, answered, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.answered += answered
	l.tally.failed = max(l.tally.failed+failed, 0)
	if answered > 0 {
		l.answered = max(l.answered, call.number)
		l.alone, l.several = 0, false
	}
	if l.tally.answered+l.tally.failed-l.before[0].answered-l.before[0].failed >= 16 {
		l.before = [2]tally{l.tally, l.before[0]}
	}
}

// Count records the result of one call: how many events were answered, and the outliers of the
// events that failed. Call it once for each call, then Compare for each failed event.
func (e *Endpoint) Count(call Call, answered int, failed ...*Outlier) {
	n := 0
	for _, o := range failed {
		if !o.noted && (answered > 0 || n == 0) { // a call that fails as a whole counts once
			o.noted = true
			n++
		}
	}
	if len(failed) == 0 {
		answered = min(answered, 1)
	}
	e.ledger.count(call.mark, answered, n)
}

// Answered records the answer to an event that failed before. Its failures then count as failures
// by chance.
func (e *Endpoint) Answered(o *Outlier) {
	if o.failures > 1 {
		e.ledger.count(mark{}, 0, o.failures-1)
	}
	*o = Outlier{}
}
