package embedded

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Whatever is said about results, and wherever one piece of them ends and the
// next begins, it is read as it was given.
func TestResultsReadAsTheyWereWritten(t *testing.T) {
	rng := newRand(t)
	for range 2000 {
		var body []byte
		var want []stream.Record
		for range 1 + rng.IntN(3) {
			var before []stream.Header
			for range 1 + rng.IntN(5) {
				r := anyRecord(rng)
				at := len(body)
				body = appendResult(body, &r, before)
				if n := len(body) - at; n > recordBytes(&r) {
					t.Fatalf("%d bytes, the bound is %d", n, recordBytes(&r))
				}
				before = r.Headers
				want = append(want, r)
			}
		}
		in := (&block{body: body, packed: true}).records()
		for i := range want {
			var got stream.Record
			if in.record(&got, nil); in.bad || !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("record %d: %v, want %v", i, got, want[i])
			}
		}
		if len(in.b) > 0 {
			t.Fatalf("%d bytes are left", len(in.b))
		}
	}
}

// anyRecord draws from so little that records are often alike.
func anyRecord(rng *rand.Rand) stream.Record {
	value := func() []byte {
		return [][]byte{nil, {}, []byte("x"), []byte("y"), []byte("a longer value")}[rng.IntN(5)]
	}
	r := stream.Record{Time: time.UnixMicro(rng.Int64N(1 << 40)).UTC(), Key: value(), Value: value()}
	for range rng.IntN(4) {
		r.Headers = append(r.Headers, stream.Header{Key: []string{"", "id", "position"}[rng.IntN(3)], Value: value()})
	}
	return r
}

// What most outputs carry takes a few bytes each after the first.
func TestRepeatedHeadersTakeAByte(t *testing.T) {
	r := stream.Record{Key: []byte("k"), Value: []byte("v"), Headers: []stream.Header{{Key: "pipeline", Value: make([]byte, 80)}, {Key: "models", Value: make([]byte, 80)}}}
	first := appendResult(nil, &r, nil)
	if n := len(appendResult(nil, &r, r.Headers)); n > len(first)-170 {
		t.Errorf("%d bytes after one of %d", n, len(first))
	}
}
