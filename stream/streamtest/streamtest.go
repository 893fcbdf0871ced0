// Package streamtest checks that a stream.Log keeps every promise of its interface. It can also
// make any log fail, so that users can test their pipelines:
//
//   - Run and RunDurable are the conformance suite that every log passes.
//   - Faulty wraps a log and injects lost commits, takeovers, rebalances and
//     delays, by a seed.
//   - Simulate runs consumers on a Faulty log against an exact oracle.
package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Run checks that newLog returns empty logs that keep the contract of stream.Log, stream.Member and
// stream.Inspector. Run closes the logs. Every case gets its own log and is named for the promise
// that it checks. A new promise requires a new case.
//
// The rebalance timeout of the logs should be 50 to 100 ms, since some cases wait for it. No case
// sleeps. On a busy machine a member may be fenced although it polls all the time; the case then
// starts again.
//
// Run checks the promises of stream.KeyTailer for logs that implement it, and those of
// stream.Seeker for members that implement it. If members implement stream.EarlyReader, Run runs
// the early cases. It also runs every case a second time with members that read early.
func Run(t *testing.T, newLog func(t *testing.T) stream.Log, allowed ...Allowance) {
	cases := slices.Concat(topicCases, deleteCases, appendCases, tailCases, peekCases, pollCases, commitCases, stateCases, memberCases, closeCases)
	runCases(t, newLog, false, cases, allowed)
	t.Run("TailingKeys", func(t *testing.T) {
		if tailsKeys(t, newLog(t)) {
			runCases(t, newLog, false, keysCases, allowed)
		}
	})
	t.Run("Seeking", func(t *testing.T) {
		if canSeek(t, newLog(t)) {
			runCases(t, newLog, false, seekCases, allowed)
		}
	})
	t.Run("ReadingEarly", func(t *testing.T) {
		if readsEarly(t, newLog(t)) {
			runCases(t, newLog, true, slices.Concat(cases, earlyCases), allowed)
		}
	})
}

// Allowance is a deviation from the contract that a log may have.
type Allowance int

// Remote allows the behaviour of brokers in other processes. A transaction or an AppendOnce may use
// offsets that no record has. Offsets still grow, and Inspector.Offsets still gives an end after
// the last record. Records of one partition may become visible before those of another.
const Remote Allowance = 1

func runCases(t *testing.T, newLog func(t *testing.T) stream.Log, early bool, cases []testCase, allowed []Allowance) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 5 {
				h := newHarness(t, newLog(t))
				h.early, h.remote = early, slices.Contains(allowed, Remote)
				reason := h.try(c.test)
				if reason == "" {
					return
				}
				t.Log("again, since ", reason)
				h.close() // otherwise its members stay in their groups, and the next log may share them
			}
			t.Fatal("that is no accident")
		})
	}
}

type testCase struct {
	name string
	test func(*harness)
}

// harness runs one case on one log.
type harness struct {
	*testing.T
	stream.Log
	ctx     context.Context // ends only if a promise is broken
	inspect stream.Inspector
	closed  bool
	prefix  string // for topics, groups and producers
	early   bool   // members read early
	remote  bool   // Remote
}

// follows reports whether a record may have this offset if next is expected.
func (h *harness) follows(offset, next stream.Offset) bool {
	return offset == next || h.remote && offset > next
}

const deadline = 30 * time.Second

func newHarness(t *testing.T, log stream.Log) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	h := &harness{T: t, Log: log, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		h.close()
	})
	var ok bool
	if h.inspect, ok = log.(stream.Inspector); !ok {
		t.Fatalf("%T is not a stream.Inspector", log)
	}
	return h
}

func (h *harness) close() {
	h.Helper()
	if !h.closed {
		h.closed = true
		h.ok(h.Log.Close())
	}
}

// stalled is a panic value. The test saw a broken promise, unless the machine was so busy that the
// test did not poll within the rebalance timeout.
type stalled string

const fencedWhilePolling stalled = "a member was fenced although it polled"

// try returns the reason why the case must run again, or "".
func (h *harness) try(test func(*harness)) (reason stalled) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if reason, ok = r.(stalled); !ok {
				panic(r)
			}
		}
	}()
	test(h)
	return ""
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) wantError(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// topic creates a topic and returns its partitions.
func (h *harness) topic(name string, partitions int32) []stream.Partition {
	h.Helper()
	name = h.prefix + name
	h.ok(h.CreateTopic(h.ctx, stream.Topic{Name: name, Partitions: partitions}))
	ps := make([]stream.Partition, partitions)
	for i := range ps {
		ps[i] = stream.Partition{Topic: name, Index: int32(i)}
	}
	return ps
}

// inOut creates the topics in and out and returns their first partitions.
func (h *harness) inOut() (in, out stream.Partition) {
	h.Helper()
	return h.topic("in", 1)[0], h.topic("out", 1)[0]
}

func record(p stream.Partition, value string) stream.Record {
	return stream.Record{Partition: p, Key: []byte("key of " + value), Value: []byte(value)}
}

func records(p stream.Partition, values ...string) []stream.Record {
	rs := make([]stream.Record, len(values))
	for i, v := range values {
		rs[i] = record(p, v)
	}
	return rs
}

// numbers returns the numbers from 0 to n-1 as values.
func numbers(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	return values
}

func (h *harness) append(p stream.Partition, values ...string) {
	h.Helper()
	h.ok(h.Append(h.ctx, records(p, values...)...))
}

// tail returns n records of p.
func (h *harness) tail(p stream.Partition, from stream.Offset, n int) []stream.Record {
	h.Helper()
	var got []stream.Record
	if n == 0 {
		return nil
	}
	next := from
	for r, err := range h.Tail(h.ctx, p, from) {
		if err != nil {
			h.Fatalf("tail %v: %d of %d records: %v", p, len(got), n, err)
		}
		if r.Partition != p || !h.follows(r.Offset, next) {
			h.Fatalf("tail %v: %v at %d, want offset %d", p, r.Partition, r.Offset, next)
		}
		next = r.Offset + 1
		if got = append(got, r); len(got) == n {
			break
		}
	}
	return got
}

func values(rs []stream.Record) string {
	vs := make([]string, len(rs))
	for i, r := range rs {
		vs[i] = string(r.Value)
	}
	return strings.Join(vs, " ")
}

// wantRecords checks that p holds exactly the records with these values.
func (h *harness) wantRecords(p stream.Partition, want ...string) {
	h.Helper()
	first, next, err := h.inspect.Offsets(h.ctx, p)
	if err != nil || first != 0 || !h.follows(next, stream.Offset(len(want))) {
		h.Fatalf("offsets of %v: %d to %d, %v; want 0 to %d", p, first, next, err, len(want))
	}
	records := h.tail(p, 0, len(want))
	if got := values(records); got != strings.Join(want, " ") {
		h.Fatalf("%v holds %s, want %s", p, got, strings.Join(want, " "))
	}
	if n := len(records); n == 0 && next != 0 || n > 0 && next != records[n-1].Offset+1 {
		h.Fatalf("%v ends at %d, not after its %d records", p, next, n)
	}
}

func (h *harness) wantCommitted(group string, p stream.Partition, want stream.Offset) {
	h.Helper()
	if got, err := h.inspect.Committed(h.ctx, h.prefix+group, p); err != nil || got != want {
		h.Fatalf("%q committed %d of %v, %v; want %d", group, got, p, err, want)
	}
}

// wantState checks the committed state, written as "a=1 b=2".
func (h *harness) wantState(group string, p stream.Partition, want string) {
	h.Helper()
	view, err := h.inspect.State(h.ctx, h.prefix+group, p)
	h.ok(err)
	if got := h.dump(view, ""); got != want {
		h.Fatalf("state of %q beside %v is %q, want %q", group, p, got, want)
	}
}

func (h *harness) dump(view stream.View, prefix string) string {
	h.Helper()
	var entries []string
	for e, err := range view.Scan([]byte(prefix)) {
		h.ok(err)
		entries = append(entries, string(e.Key)+"="+string(e.Value))
	}
	return strings.Join(entries, " ")
}

// step returns a transaction with outputs and state changes ("a=1" sets, "a" deletes) that moves in
// to next.
func step(in stream.Partition, next stream.Offset, outputs []stream.Record, sets ...string) stream.Transaction {
	s := stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: next}}
	for _, set := range sets {
		key, value, isValue := strings.Cut(set, "=")
		c := stream.Change{Partition: in, Key: []byte(key)}
		if isValue {
			c.Value = []byte(value)
		}
		s.Changes = append(s.Changes, c)
	}
	return s
}

// member is a stream.Member and the assignments and records it received.
type member struct {
	stream.Member
	h       *harness
	owned   map[stream.Partition]stream.Assigned
	next    map[stream.Partition]stream.Offset
	revoked []stream.Partition // by the last Poll
	records []stream.Record
}

func (h *harness) join(group string, topics ...string) *member {
	h.Helper()
	for i := range topics {
		topics[i] = h.prefix + topics[i]
	}
	joined, err := h.Join(h.ctx, h.prefix+group, topics...)
	h.ok(err)
	h.Cleanup(func() { _ = joined.Close() })
	if h.early {
		joined.(stream.EarlyReader).ReadEarly(true)
	}
	return &member{
		Member: joined,
		h:      h,
		owned:  map[stream.Partition]stream.Assigned{},
		next:   map[stream.Partition]stream.Offset{},
	}
}

// poll polls for up to 3 ms.
func (m *member) poll() stream.Batch {
	m.h.Helper()
	ctx, cancel := context.WithTimeout(m.h.ctx, 3*time.Millisecond)
	defer cancel()
	batch, err := m.pollUntil(ctx, 100)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		m.h.Fatalf("poll: %v", err)
	}
	return batch
}

// pollUntil polls once and updates the fields of m.
func (m *member) pollUntil(ctx context.Context, limit int) (stream.Batch, error) {
	m.h.Helper()
	for _, p := range m.revoked {
		delete(m.owned, p)
	}
	m.revoked = nil
	batch, err := m.Poll(ctx, limit)
	if errors.Is(err, stream.ErrFenced) {
		panic(fencedWhilePolling)
	}
	if len(batch.Records) > limit {
		m.h.Fatalf("poll returned %d records, the limit is %d", len(batch.Records), limit)
	}
	for _, p := range batch.Revoked {
		if _, owned := m.owned[p]; !owned {
			m.h.Fatalf("%v was revoked, but it was not assigned", p)
		}
	}
	for _, a := range batch.Assigned {
		if _, owned := m.owned[a.Partition]; owned {
			m.h.Fatalf("%v was assigned twice", a.Partition)
		}
		m.owned[a.Partition] = a
		m.next[a.Partition] = a.Next
	}
	for _, r := range batch.Records {
		if _, owned := m.owned[r.Partition]; !owned || !m.h.follows(r.Offset, m.next[r.Partition]) {
			m.h.Fatalf("poll returned offset %d of %v, want %d of a partition owned (%v)", r.Offset, r.Partition, m.next[r.Partition], owned)
		}
		m.next[r.Partition] = r.Offset + 1
	}
	m.revoked = batch.Revoked
	m.records = append(m.records, batch.Records...)
	return batch, err
}

// until polls the members in turn until done returns true.
func (h *harness) until(what string, done func() bool, members ...*member) {
	h.Helper()
	for !done() {
		if h.ctx.Err() != nil {
			h.Fatalf("never happened: %s", what)
		}
		for _, m := range members {
			m.poll()
		}
	}
}

// own polls until m owns n partitions.
func (m *member) own(n int) {
	m.h.Helper()
	m.h.until(fmt.Sprintf("owning %d partitions", n), func() bool { return len(m.owned) == n && len(m.revoked) == 0 }, m)
}

// receive polls until m has n records.
func (m *member) receive(n int) {
	m.h.Helper()
	m.h.until(fmt.Sprintf("%d records", n), func() bool { return len(m.records) >= n }, m)
	if len(m.records) > n {
		m.h.Fatalf("%d records, want %d", len(m.records), n)
	}
}

func (m *member) commit(s stream.Transaction) {
	m.h.Helper()
	err := m.Commit(s).Wait(m.h.ctx)
	if errors.Is(err, stream.ErrFenced) {
		panic(fencedWhilePolling)
	}
	m.h.ok(err)
}

// refused commits a transaction that must fail with want and make the member unusable.
func (m *member) refused(s stream.Transaction, want error) {
	m.h.Helper()
	m.h.wantError("commit", m.Commit(s).Wait(m.h.ctx), want)
	m.h.wantError("the commit after it", m.Commit(stream.Transaction{}).Wait(m.h.ctx), stream.ErrFenced)
	for {
		_, err := m.Poll(m.h.ctx, 1)
		if err != nil {
			m.h.wantError("the poll after it", err, stream.ErrFenced)
			return
		}
	}
}
