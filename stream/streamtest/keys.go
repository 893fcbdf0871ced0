package streamtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// keysCases are for logs that are a stream.KeyTailer.
var keysCases = []testCase{{"TailOfAKeyYieldsItsRecordsWholeAndTheKeysOfOthers", tailOfAKey}}

func tailsKeys(t *testing.T, log stream.Log) bool {
	h := newHarness(t, log)
	defer h.close()
	_, ok := log.(stream.KeyTailer)
	return ok
}

// tailOfAKey mixes records of transactions and of appends, since a log may store them differently.
// Some have the same headers as the record before, some do not.
func tailOfAKey(h *harness) {
	in, out := h.inOut()
	var want []stream.Record
	for i := range 300 {
		r := stream.Record{Partition: out, Key: fmt.Append(nil, "k", i%7), Value: fmt.Append(nil, "v", i), Headers: []stream.Header{{Key: "same", Value: []byte("s")}, {Key: "n", Value: fmt.Append(nil, i/3)}}}
		if i%5 == 0 {
			r.Headers = append(r.Headers[:1:1], stream.Header{Key: "other"}, r.Headers[1])
		}
		if i%11 == 0 {
			r.Headers = nil
		}
		want = append(want, r)
	}
	h.ok(h.Append(h.ctx, want[:150]...))
	m := h.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, want[150:]))
	whole := h.tail(out, 0, len(want))
	keep := func(key []byte) bool { return string(key) == "k3" }
	i := 0
	for r, err := range h.Log.(stream.KeyTailer).TailKeys(h.ctx, out, 0, keep) {
		h.ok(err)
		switch w := &whole[i]; {
		case r.Partition != w.Partition || r.Offset != w.Offset || !bytes.Equal(r.Key, w.Key):
			h.Fatalf("record %d is %v@%d of %q, want %v@%d of %q", i, r.Partition, r.Offset, r.Key, w.Partition, w.Offset, w.Key)
		case keep(r.Key) && fmt.Sprint(r) != fmt.Sprint(*w):
			h.Fatalf("record %d is %v, want %v", i, r, *w)
		case !keep(r.Key) && (!r.Time.IsZero() || r.Value != nil || r.Headers != nil):
			h.Fatalf("record %d is not to be kept, and is %v", i, r)
		}
		if i++; i == len(whole) {
			break
		}
	}
}
