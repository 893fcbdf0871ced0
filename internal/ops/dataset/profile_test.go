package dataset

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
)

// TestTheSampleIsBoundedAndOfNoOrder takes the same rows in two random orders.
func TestTheSampleIsBoundedAndOfNoOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var schema value.Schema
	slot, err := schema.Add("n", value.Type{Kind: value.Number})
	if err != nil {
		t.Fatal(err)
	}
	row := schema.NewRows(1)[0]
	sampled := func(order []int) (edges []float64) {
		p := &profiler{model: "m", scores: []lang.Scored{{Features: []lang.Feature{{Name: "n", Given: lang.Given{Slot: slot}}}}}}
		if err := p.prepare("x"); err != nil {
			t.Fatal(err)
		}
		if p.room != sampleRows {
			t.Fatalf("room for %d rows", p.room)
		}
		p.room = 100
		for _, i := range order {
			row.SetNumber(slot, float64(i))
			if p.take(binary.BigEndian.AppendUint32(nil, uint32(i)), &row); len(p.sample) > p.room {
				t.Fatalf("%d rows in the sample", len(p.sample))
			}
		}
		if err := p.begin(); err != nil {
			t.Fatal(err)
		}
		return p.columns["n"].Edges
	}
	r := rand.New(rand.NewPCG(seed, 0))
	first, second := sampled(r.Perm(5000)), sampled(r.Perm(5000))
	if len(first) != 19 {
		t.Fatalf("edges %v", first)
	}
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("edges %v, in another order %v", first, second)
		}
	}
}
