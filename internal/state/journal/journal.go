// Package journal stores answers of calls in the state of a partition. It is for calls that cost
// money, or that a repeated call would answer differently. After a crash, a retry or a replay, the
// stored answer is used. The package is pure: it reads a stream.View and returns changes for a
// transaction.
package journal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Spec limits the journal of a partition.
type Spec struct {
	// Retention is how long an answer is kept, in event time; 0 means 7 days. It must be longer
	// than the wait of a record for its turn, and than a replay goes back.
	Retention time.Duration
	// BytesMax limits the state of the answers; 0 means 256 MiB. The oldest are removed first.
	BytesMax int64
	// AnswerBytesMax is the largest size of an answer; 0 means 1 MiB.
	AnswerBytesMax int
}

const (
	retention      = 7 * 24 * time.Hour
	bytesMax       = 256 << 20
	answerBytesMax = 1 << 20
	// overhead is the size of an answer in state without its bytes: two keys, and its place in the
	// order.
	overhead = 128
	// agedMost is how many expired answers are removed per new answer. It limits the changes of a
	// transaction. Since it is above 1, expired answers are removed faster than new ones are added.
	agedMost = 16
)

// Validate returns all errors in the spec.
func (s Spec) Validate() error {
	var list []error
	if s.Retention < 0 {
		list = append(list, fmt.Errorf("retention is %v: it cannot be negative", s.Retention))
	}
	if s.AnswerBytesMax < 0 || s.AnswerBytesMax > math.MaxInt32 {
		list = append(list, fmt.Errorf("%d bytes of one answer: use 1 to %d", s.AnswerBytesMax, math.MaxInt32))
	}
	if d := s.withDefaults(); s.BytesMax < 0 || d.BytesMax < int64(d.AnswerBytesMax)+overhead {
		list = append(list, fmt.Errorf("%d bytes of answers: use at least %d, the limit of one answer", s.BytesMax, d.AnswerBytesMax+overhead))
	}
	return errors.Join(list...)
}

// Widest returns the larger value of each limit of both specs.
func (s Spec) Widest(other Spec) Spec {
	a, b := s.withDefaults(), other.withDefaults()
	return Spec{max(a.Retention, b.Retention), max(a.BytesMax, b.BytesMax), max(a.AnswerBytesMax, b.AnswerBytesMax)}
}

func (s Spec) withDefaults() Spec {
	if s.Retention == 0 {
		s.Retention = retention
	}
	if s.BytesMax == 0 {
		s.BytesMax = bytesMax
	}
	if s.AnswerBytesMax == 0 {
		s.AnswerBytesMax = answerBytesMax
	}
	return s
}

// Answer is the result of a call.
type Answer struct {
	Model string  // model that the statistics count it for
	Bytes []byte  // must not be modified
	Units uint64  // cost in calls or tokens
	Price float64 // price of a unit; 0 is unknown
}

// State says what the caller must do about a request.
type State int

// The states of a request.
const (
	// Call means that no call of the request was made: the caller makes it, then calls Record or
	// Fail.
	Call State = iota + 1
	// Wait means that a call is in flight: Committed or Fail will return the waiter.
	Wait
	// Found means that the request has an answer.
	Found
)

// String returns the name of a state.
func (s State) String() string {
	switch s {
	case Call:
		return "call"
	case Wait:
		return "wait"
	case Found:
		return "found"
	}
	return fmt.Sprintf("state %d", int(s))
}

// Landed is an answer that became durable, with its waiters. The waiter that made the call comes
// first.
type Landed struct {
	Key     Key
	Answer  []byte
	Waiters []uint64
}

// Journal holds the answers of one partition. It is not safe for concurrent use; the owner of the
// partition uses it.
//
//  1. An answer is used only after its transaction is committed. Until then its
//     request is in flight. So the state holds everything that an output was
//     computed from, and a crash repeats only calls that were in flight.
//  2. A request has one call at a time, and others wait for it. Two answers are
//     possible only if a call was given up and another one was made. The first
//     answer stays.
//  3. Answers are numbered in order of arrival and removed in that order. The
//     state has each answer by its key, its key by its number, and one entry with
//     the first and the next number. All three are read on demand. So opening a
//     journal of any size takes no time and no memory.
//  4. A request without waiters has an answer if the state says so, even if an
//     uncommitted transaction removes it. So the removal causes no second payment.
type Journal struct {
	partition stream.Partition
	view      stream.View
	spec      Spec

	head    head
	newest  int64 // greatest event time of an answer, in microseconds
	dirty   bool  // head has changed since the last transaction
	flights map[Key]*flight
	tail    []place // places of answers in uncommitted transactions, the newest last
	steps   []step  // uncommitted transactions, and the one being built
	keyBuf  []byte
}

// flight is a request without a durable answer.
type flight struct {
	waiters  []uint64
	called   bool    // the first waiter makes the call
	answered *Answer // its answer in an uncommitted transaction, or nil
}

// place is the state entry of an answer's number.
type place struct {
	key  Key
	time int64 // event time of the partition at its arrival, in microseconds
	size uint64
}

// step is the part of the journal in one transaction.
type step struct {
	changes []stream.Change
	landed  []Landed // without their waiters
	tail    int      // number of places in it
}

// Open returns the journal of a partition. The view must be that of the partition's owner.
func Open(partition stream.Partition, view stream.View, spec Spec) (*Journal, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{partition: partition, view: view, spec: spec.withDefaults(), flights: map[Key]*flight{}, steps: make([]step, 1)}
	stored, err := view.Get([]byte{statekey.JournalHead})
	if err == nil {
		j.head, err = readHead(stored)
	}
	if err == nil && j.head.first < j.head.next {
		var last place
		last, err = j.place(j.head.next - 1)
		j.newest = last.time
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal beside %v: %w", partition, err)
	}
	return j, nil
}

// Stats returns the counters of the journal, including uncommitted transactions.
func (j *Journal) Stats() Stats {
	s := j.head.Stats
	s.Answers = j.head.next - j.head.first
	s.Models = append([]Count(nil), s.Models...)
	return s
}

// Lookup returns the durable answer to a request, or nil. It does not change statistics.
func (j *Journal) Lookup(key Key) ([]byte, error) {
	_, answer, err := j.read(key)
	return answer, err
}

// Ask says what to do about a request to a model. answer is set for Found. The caller identifies
// the request by waiter, a number that it uses once.
func (j *Journal) Ask(key Key, model string, waiter uint64) (state State, answer []byte, err error) {
	if f, ok := j.flights[key]; ok {
		f.waiters = append(f.waiters, waiter)
		return Wait, nil, nil
	}
	units, answer, err := j.read(key)
	if err != nil {
		return 0, nil, err
	}
	if answer != nil {
		j.hit(model, 1, units)
		return Found, answer, nil
	}
	j.flights[key] = &flight{waiters: []uint64{waiter}, called: true}
	return Call, nil, nil
}

// hit counts n requests that used the answer of a call with this many units.
func (j *Journal) hit(model string, n, units uint64) {
	c := j.head.of(model)
	c.Hits += n
	c.Saved += n * units
	j.dirty = true
}

// Fail gives up a call and returns its waiters, the one that made the call first. Each of them may
// Ask again. If the answer has arrived and only its transaction is not committed, Fail returns
// none: the waiters will get the answer.
func (j *Journal) Fail(key Key) []uint64 {
	f := j.flights[key]
	if f == nil || f.answered != nil {
		return nil
	}
	delete(j.flights, key)
	return f.waiters
}

// Record adds the answer of a call to the current transaction, even if the call was given up. The
// caller must not use the answer before Committed returns it. at is the event time of the request,
// in microseconds; the age of answers counts from the greatest of these times.
//
// If the request already has an answer, the journal keeps that one and recorded is false. If the
// answer is too large, the error is stream.ErrTooLarge; the answer is not stored and its call stays
// in flight. After any other error the journal is unusable.
func (j *Journal) Record(key Key, answer Answer, at int64) (recorded bool, err error) {
	c := j.head.of(answer.Model)
	c.Price = answer.Price
	c.Calls++
	c.Paid += answer.Units
	j.dirty = true
	if n := len(answer.Bytes); n > j.spec.AnswerBytesMax {
		return false, fmt.Errorf("an answer of %d bytes, the journal takes %d: %w", n, j.spec.AnswerBytesMax, stream.ErrTooLarge)
	}
	f := j.flights[key]
	if f != nil && f.answered != nil {
		c.Again++
		return false, nil
	}
	if _, known, err := j.read(key); known != nil || err != nil {
		c.Again++
		return false, err
	}
	size := uint64(len(answer.Bytes)) + overhead
	if j.head.next == 0 || at > j.newest {
		j.newest = at
	}
	if err := j.makeRoom(size, j.newest); err != nil {
		return false, err
	}
	if f == nil {
		f = &flight{}
		j.flights[key] = f
	}
	f.answered = &answer
	s := &j.steps[len(j.steps)-1]
	s.landed = append(s.landed, Landed{Key: key, Answer: answer.Bytes})
	s.tail++
	p := place{key: key, time: j.newest, size: size}
	j.change(answerKey(nil, key), appendAnswer(nil, &answer))
	j.change(orderKey(nil, j.head.next), p.append(nil))
	j.tail = append(j.tail, p)
	j.head.next++
	j.head.Bytes += size
	return true, nil
}

// makeRoom removes the oldest answers: as many as a new one of this size needs, and some of the
// expired ones. It removes a limited number at once, since the journal may have been written with
// larger limits.
func (j *Journal) makeRoom(size uint64, now int64) error {
	kept := j.spec.Retention.Microseconds()
	edge := max(now, math.MinInt64+kept) - kept
	neededMost := (j.spec.AnswerBytesMax+overhead-1)/overhead + 1
	for gone := 0; j.head.first < j.head.next; gone++ {
		full := j.head.Bytes+size > uint64(j.spec.BytesMax)
		if full && gone >= neededMost || !full && gone >= agedMost {
			return nil
		}
		oldest, err := j.place(j.head.first)
		if err != nil || !full && oldest.time > edge {
			return err
		}
		j.change(answerKey(nil, oldest.key), nil)
		j.change(orderKey(nil, j.head.first), nil)
		j.head.first++
		j.head.Bytes -= min(oldest.size, j.head.Bytes)
	}
	return nil
}

func (j *Journal) change(key, value []byte) {
	s := &j.steps[len(j.steps)-1]
	s.changes = append(s.changes, stream.Change{Partition: j.partition, Key: key, Value: value})
}

// Changes returns the journal's changes for the current transaction, perhaps none, and begins the
// next one. The caller must call it once for every transaction that it commits.
func (j *Journal) Changes() []stream.Change {
	if j.dirty {
		j.change([]byte{statekey.JournalHead}, j.head.append(nil))
		j.dirty = false
	}
	changes := j.steps[len(j.steps)-1].changes
	j.steps = append(j.steps, step{})
	return changes
}

// Committed records that the oldest uncommitted transaction is committed and returns the answers in
// it. The caller must call it once for every successful commit, in order. After a failed commit the
// journal is unusable. The returned answers stay valid even if the journal removes them.
func (j *Journal) Committed() []Landed {
	if len(j.steps) == 1 {
		panic("journal: a step was committed that Changes did not return")
	}
	done := j.steps[0]
	j.steps = j.steps[1:]
	j.tail = j.tail[done.tail:]
	for i := range done.landed {
		landed := &done.landed[i]
		f := j.flights[landed.Key]
		delete(j.flights, landed.Key)
		landed.Waiters = f.waiters
		hits := len(f.waiters)
		if f.called {
			hits--
		}
		if hits > 0 {
			j.hit(f.answered.Model, uint64(hits), f.answered.Units)
		}
	}
	return done.landed
}
