// Package journal keeps the answers of calls that are paid for, or that another
// call would answer in another way, in the state beside a partition: so that a
// crash, a retry or a replay takes the answer that there was. It is pure: it
// reads a stream.View, and what it writes are changes for a step.
package journal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Spec bounds what a journal keeps beside a partition.
type Spec struct {
	// Retention is how long an answer is kept, by event time: 7 days where it is
	// 0. It has to outlast what a record may wait for its turn, and how far back
	// a replay goes.
	Retention time.Duration
	// BytesMax is how much state the answers take: 256 MiB where it is 0. The
	// oldest go first.
	BytesMax int64
	// AnswerBytesMax is the most of one answer: 1 MiB where it is 0.
	AnswerBytesMax int
}

const (
	retention      = 7 * 24 * time.Hour
	bytesMax       = 256 << 20
	answerBytesMax = 1 << 20
	// overhead is what an answer takes beside its bytes: two keys, and its place
	// in the order.
	overhead = 128
	// agedMost is how many answers leave for their age when another comes, so that
	// no step is full of them; they leave faster than others come.
	agedMost = 16
)

// Validate returns what is wrong with the spec, all of it.
func (s Spec) Validate() error {
	var list []error
	if s.Retention < 0 {
		list = append(list, fmt.Errorf("retention is %v: it cannot be negative", s.Retention))
	}
	if s.AnswerBytesMax < 0 || s.AnswerBytesMax > math.MaxInt32 {
		list = append(list, fmt.Errorf("%d bytes of one answer: use 1 to %d", s.AnswerBytesMax, math.MaxInt32))
	}
	if d := s.withDefaults(); s.BytesMax < 0 || d.BytesMax < int64(d.AnswerBytesMax)+overhead {
		list = append(list, fmt.Errorf("%d bytes of answers: one alone may take %d", s.BytesMax, d.AnswerBytesMax+overhead))
	}
	return errors.Join(list...)
}

// Widest returns the bounds of which each is that of the spec that keeps more.
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

// Answer is what a call brought.
type Answer struct {
	Model string  // whose statistics count it
	Bytes []byte  // must not be modified
	Units uint64  // that it cost: calls or tokens
	Price float64 // of a unit; 0 is unknown
}

// State says what is to be done about a request.
type State int

// The states of a request.
const (
	// Call is a request that nobody made: the caller makes it, then says Record or
	// Fail.
	Call State = iota + 1
	// Wait is one whose answer is on its way: its waiter is in what Committed or
	// Fail returns.
	Wait
	// Found is one that has an answer.
	Found
)

// String returns the word for a state.
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

// Landed is an answer that became durable, and who waits for it: the waiter that
// made the call first.
type Landed struct {
	Key     Key
	Answer  []byte
	Waiters []uint64
}

// Journal is the answers beside one partition. It has one user at a time, the
// owner of the partition.
//
//  1. An answer is used by nobody before the step that holds it is committed:
//     until then its request is in flight, as before it came. So whatever an
//     output was made of is in the state, and a crash repeats only calls that
//     were in flight.
//  2. There is one call of a request at a time; others wait for it. Two answers
//     come only where a call was given up and another one made. The first one
//     counts for ever.
//  3. Answers are numbered in the order they came, and leave in that order. The
//     state has each by its key, its key by its number, and one entry with the
//     first and the next number. All three are read when they are needed, so a
//     journal of any size takes no time to open and no memory.
//  4. A request that nobody waits for has an answer where the state says so, though a
//     step that is not committed may take it out: it is not paid for twice by that.
type Journal struct {
	partition stream.Partition
	view      stream.View
	spec      Spec

	head    head
	newest  int64 // event time of an answer, microseconds
	dirty   bool  // the head is not in a step
	flights map[Key]*flight
	tail    []place // of the answers whose step is not committed, the newest last
	steps   []step  // that are not committed, and the one being made
	keyBuf  []byte
}

// flight is a request whose answer is not durable.
type flight struct {
	waiters  []uint64
	called   bool    // the first of them makes the call
	answered *Answer // in a step; nil before
}

// place is what the state has by the number of an answer.
type place struct {
	key  Key
	time int64 // event time of the partition when it came, microseconds
	size uint64
}

// step is what the journal changes in one.
type step struct {
	changes []stream.Change
	landed  []Landed // without their waiters
	tail    int      // places of the step
}

// Open returns the journal beside a partition. The view has to be that of the
// partition's owner.
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

// Stats returns what the journal holds and was good for, steps that are not
// committed among it.
func (j *Journal) Stats() Stats {
	s := j.head.Stats
	s.Answers = j.head.next - j.head.first
	s.Models = append([]Count(nil), s.Models...)
	return s
}

// Lookup returns the answer to a request, nil where there is none that is
// durable. It counts for nothing.
func (j *Journal) Lookup(key Key) ([]byte, error) {
	_, answer, err := j.read(key)
	return answer, err
}

// Ask says what is to be done about a request to a model. The answer is that of
// Found. The waiter is a number that the caller knows the request by; it is of
// use once.
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

// hit counts requests that took the answer of one call of so many units.
func (j *Journal) hit(model string, n, units uint64) {
	c := j.head.of(model)
	c.Hits += n
	c.Saved += n * units
	j.dirty = true
}

// Fail gives a call up, and returns who waited for its answer, the waiter that
// made it first: each may Ask again. Where the answer has come and only its step
// is not committed there is nobody to return: they get it.
func (j *Journal) Fail(key Key) []uint64 {
	f := j.flights[key]
	if f == nil || f.answered != nil {
		return nil
	}
	delete(j.flights, key)
	return f.waiters
}

// Record takes the answer of a call into the step being made, also of one that
// was given up. It is of no use to anybody before Committed returns it. At is the
// event time of who asked, in microseconds: the age of answers counts from the
// newest of these. Where the request has an answer already the journal keeps that
// one and recorded is false. An answer that is too large is stream.ErrTooLarge and
// not taken, and its call is still in flight; every other error leaves the journal
// of no use.
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

// makeRoom takes out the oldest answers: as many as another one of this size
// needs, and some of those that are too old. How many go at once is bounded,
// since the journal may have been written with wider bounds.
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

// Changes returns what the journal changes in the step being made, and begins
// the next one. It is called once for every step that is given to Commit; the
// changes may be none.
func (j *Journal) Changes() []stream.Change {
	if j.dirty {
		j.change([]byte{statekey.JournalHead}, j.head.append(nil))
		j.dirty = false
	}
	changes := j.steps[len(j.steps)-1].changes
	j.steps = append(j.steps, step{})
	return changes
}

// Committed says that the oldest step of Changes that was not committed is, and
// returns the answers in it. It is called once for every commit that succeeded,
// in order; after one that failed the journal is of no use. An answer stays in
// memory until whoever has it lets go, whatever left the journal meanwhile.
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
