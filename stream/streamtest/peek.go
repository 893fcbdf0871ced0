package streamtest

import (
	"github.com/afterbay/afterbay/stream"
)

var peekCases = []testCase{
	{"PeekReturnsTheFirstRecordFromAnOffset", peekReturnsFirst},
	{"PeekFindsNothingAtTheEnd", peekAtEnd},
	{"PeekSeesCommittedRecordsOnly", peekSeesCommitted},
	{"NothingIsLeftWhenAllWasCommitted", nothingLeft},
}

// peek returns the first record of p from offset on, or nil if p has no such record.
func (h *harness) peek(p stream.Partition, from stream.Offset) *stream.Record {
	h.Helper()
	r, found, err := h.inspect.Peek(h.ctx, p, from)
	h.ok(err)
	if !found {
		return nil
	}
	return &r
}

func peekReturnsFirst(h *harness) {
	in, _ := h.inOut()
	h.append(in, numbers(10)...)
	all := h.tail(in, 0, 10)
	for from := stream.Offset(-1); from < 10; from++ { // -1 is below the first retained offset
		want := all[max(from, 0)]
		got := h.peek(in, from)
		if got == nil || got.Partition != in || got.Offset != want.Offset || !got.Time.Equal(want.Time) ||
			string(got.Key) != string(want.Key) || string(got.Value) != string(want.Value) {
			h.Fatalf("peek from %d: %+v, want %+v", from, got, want)
		}
	}
}

func peekAtEnd(h *harness) {
	in, _ := h.inOut()
	for n := range 3 {
		for beyond := range stream.Offset(3) {
			if r := h.peek(in, stream.Offset(n)+beyond); r != nil {
				h.Fatalf("peek into %d records from %d: offset %d", n, stream.Offset(n)+beyond, r.Offset)
			}
		}
		h.append(in, "more")
	}
}

func peekSeesCommitted(h *harness) {
	in, out := h.inOut()
	other := h.topic("other", 1)[0]
	m := h.join("g", "in")
	m.own(1)
	bad := step(in, 0, records(out, "never"))
	bad.Offsets[other] = 0 // not owned
	m.refused(bad, stream.ErrFenced)
	if r := h.peek(out, 0); r != nil {
		h.Fatalf("%q of a step that failed", r.Value)
	}
	h.append(out, "marker")
	if r := h.peek(out, 0); r == nil || string(r.Value) != "marker" {
		h.Fatalf("peek: %+v, want the marker", r)
	}
}

// nothingLeft reads the records of transactions. After each transaction a log may have added a
// marker, which must not count as a record.
func nothingLeft(h *harness) {
	in, out := h.inOut()
	first, second := h.join("first", "in"), h.join("second", "out")
	first.own(1)
	second.own(1)
	for i := range 3 {
		first.commit(step(in, 0, records(out, "a", "b")))
		committed, err := h.inspect.Committed(h.ctx, h.prefix+"second", out)
		h.ok(err)
		if r := h.peek(out, committed); r == nil || string(r.Value) != "a" {
			h.Fatalf("round %d: peek from %d: %+v, want the oldest that is not committed", i, committed, r)
		}
		second.receive(2 * (i + 1))
		second.commit(step(out, second.next[out], nil))
		if committed, err = h.inspect.Committed(h.ctx, h.prefix+"second", out); err != nil {
			h.Fatal(err)
		}
		if r := h.peek(out, committed); r != nil {
			h.Fatalf("round %d: all is committed up to %d, and %d is left", i, committed, r.Offset)
		}
	}
}
