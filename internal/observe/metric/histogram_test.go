package metric

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/internal/observe"
)

func TestHistogramsKeepEveryEventInItsBucket(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var recorded observe.Histogram
		for range 1 + random.IntN(300) {
			recorded.Record(time.Duration(math.Exp(random.Float64()*30)), 1+random.IntN(5))
		}
		recorded.Record(0, 2)
		var snapshot observe.Snapshot
		snapshot.Add(&recorded)
		want, classic := map[int]int64{}, make([]uint64, len(classicBounds))
		for upper, n := range snapshot.Each {
			if upper > time.Nanosecond {
				want[int(math.Ceil(math.Log2(upper.Seconds())*8))] += int64(n)
			}
			for i, bound := range classicBounds {
				if upper <= bound {
					classic[i] += n
				}
			}
		}
		out := &dto.Metric{}
		if err := (&histogram{times: Times{snapshot.Count, snapshot.Sum, snapshot.Each}}).Write(out); err != nil {
			t.Fatal(err)
		}
		got, index, count, deltas := map[int]int64{}, 0, int64(0), out.Histogram.PositiveDelta
		for _, s := range out.Histogram.PositiveSpan {
			index += int(s.GetOffset())
			for range s.GetLength() {
				count += deltas[0]
				got[index], deltas, index = count, deltas[1:], index+1
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(deltas) != 0 {
			t.Fatalf("native: %s", diff)
		}
		for i, b := range out.Histogram.Bucket {
			if b.GetCumulativeCount() != classic[i] || b.GetUpperBound() != classicBounds[i].Seconds() {
				t.Fatalf("classic bucket %v: %d, want %d", classicBounds[i], b.GetCumulativeCount(), classic[i])
			}
		}
		if h := out.Histogram; h.GetSampleCount() != snapshot.Count || h.GetZeroCount() < 2 || h.GetSampleSum() != snapshot.Sum.Seconds() {
			t.Fatalf("%d of %d, %d at zero", h.GetSampleCount(), snapshot.Count, h.GetZeroCount())
		}
	}
}
