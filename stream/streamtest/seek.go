package streamtest

import (
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// seekCases are for logs with members that are a stream.Seeker.
var seekCases = []testCase{{"SeekLeavesRecordsOut", seeks}}

// canSeek reports whether the members of log can seek. It closes log.
func canSeek(t *testing.T, log stream.Log) bool {
	h := newHarness(t, log)
	defer h.close()
	h.topic("seek", 1)
	member, err := h.Join(h.ctx, "seek", "seek")
	h.ok(err)
	_, ok := member.(stream.Seeker)
	h.ok(member.Close())
	return ok
}

// seeks moves a member to later offsets in all parts of the log, and once to the end, before a
// record exists there. Then another member must begin at the committed offset.
func seeks(h *harness) {
	in, _ := h.inOut()
	var values []string
	for i := range 500 {
		values = append(values, fmt.Sprint(i))
		h.append(in, values[i])
	}
	m := h.join("g", "in")
	m.own(1)
	m.commit(step(in, 3, nil))
	seeker := m.Member.(stream.Seeker)
	past := func() int { return int(m.next[in]) }
	for _, to := range []int{past() + 1, past() + 170, 420, 500} {
		if to < past() {
			continue // already read
		}
		seeker.Seek(stream.Partition{Topic: in.Topic, Index: 7}, 499)
		seeker.Seek(in, stream.Offset(to))
		seeker.Seek(in, 1)
		m.next[in] = stream.Offset(to)
		before := len(m.records)
		if to == len(values) {
			values = append(values, "last")
			h.append(in, "last")
		}
		h.until("records behind the seek", func() bool { return len(m.records) > before }, m)
		if r := m.records[before]; int(r.Offset) != to || string(r.Value) != values[to] {
			h.Fatalf("the first record from %d on is %d, %q", to, r.Offset, r.Value)
		}
	}
	h.wantCommitted("g", in, 3)
	h.ok(m.Close())
	heir := h.join("g", "in")
	heir.own(1)
	if next := heir.owned[in].Next; next != 3 {
		h.Fatalf("the next member begins at %d, want 3", next)
	}
}
