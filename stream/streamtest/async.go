package streamtest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// asyncCases are of logs that are stream.AsyncAppender.
var asyncCases = []testCase{
	{"AsyncAppendsAreInTheOrderOfTheirCalls", asyncInOrder},
	{"AsyncAppendThatFailsIsSaidOnce", asyncFails},
	{"AsyncAppendsEndWithTheLog", asyncEnds},
}

func appendsAsync(t *testing.T, log stream.Log) bool {
	h := newHarness(t, log)
	defer h.close()
	_, ok := log.(stream.AsyncAppender)
	return ok
}

// async appends records one by one, each by a call of its own, and waits for them.
func (h *harness) async(rs []stream.Record) (ends []error) {
	h.Helper()
	ends = make([]error, len(rs))
	var group sync.WaitGroup
	for i := range rs {
		group.Add(1)
		done := func(err error) { ends[i] = err; group.Done() } // a second one panics
		if !h.Log.(stream.AsyncAppender).AppendAsync(rs[i:i+1], done) {
			done(h.Append(h.ctx, rs[i]))
		}
	}
	group.Wait()
	return ends
}

func asyncInOrder(h *harness) {
	in := h.topic("in", 1)[0]
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprint(i))
	}
	rs := records(in, values...)
	for i, err := range h.async(rs) {
		h.ok(err)
		if rs[i].Offset != stream.Offset(i) || rs[i].Time.IsZero() {
			h.Fatalf("record %d has offset %d and time %v", i, rs[i].Offset, rs[i].Time)
		}
	}
	h.wantRecords(in, values...)
}

func asyncFails(h *harness) {
	in := h.topic("in", 1)[0]
	ends := h.async([]stream.Record{record(in, "good"), record(stream.Partition{Topic: "none"}, "bad"), record(in, "too")})
	h.ok(ends[0])
	h.wantError("append", ends[1], stream.ErrUnknownTopic)
	h.ok(ends[2])
	h.wantRecords(in, "good", "too")
}

func asyncEnds(h *harness) {
	in := h.topic("in", 1)[0]
	h.append(in, "a")
	h.close()
	h.wantError("append", h.async(records(in, "b"))[0], stream.ErrClosed)
}
