package observe

import (
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

func TestLooksAreBounded(t *testing.T) {
	var m LagMeter
	p := stream.Partition{Topic: "in"}
	start := time.Unix(0, 0)
	for i := range 10_000 {
		at := start.Add(time.Duration(i) * time.Second)
		m.saw(p, look{at, at, stream.Offset(i - i%5)}) // grows every fifth time
		if n := len(m.ends[p]); n > endsMost {
			t.Fatalf("%d looks, at most %d", n, endsMost)
		}
	}
	if first := m.ends[p][0]; !first.asked.Equal(start) {
		t.Errorf("the first look is that of %v", first.asked)
	}
	m.saw(p, look{start.Add(time.Hour), start.Add(time.Hour), 3}) // earlier than the newest
	if n := len(m.ends[p]); n < endsMost/2 {
		t.Errorf("%d looks are left", n)
	}
	m.saw(p, look{start.Add(24 * time.Hour), start.Add(24 * time.Hour), 3}) // the topic was made again
	if n := len(m.ends[p]); n != 1 {
		t.Errorf("%d looks at two topics", n)
	}
}
