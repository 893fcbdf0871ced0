package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// aggregateSpecs are features of which the state is other than that of goldenSpecs.
func aggregateSpecs(t testing.TB) []Spec {
	return []Spec{
		{Name: "cents", Windows: windowsOf(t, "60s/10s"), Aggregates: []Aggregate{Variance, Slope}, Decimals: 2},
		{Name: "floats", Windows: windowsOf(t, "60s/10s"), Aggregates: []Aggregate{Stddev, Slope}, Decimals: -1},
		{Name: "texts", Kind: Texts, Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Distinct}, Max: 64, Overflow: OverflowOldest},
		{Name: "device", Kind: Texts, Last: 2, Aggregates: []Aggregate{Previous}},
		{Name: "ints", Kind: Ints, Last: 2, Aggregates: []Aggregate{Changes}},
	}
}

// groupedSpecs are features in groups.
func groupedSpecs(t testing.TB) []Spec {
	return []Spec{
		{Name: "counts", Per: true, Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Count}, Decimals: -1, Max: 64, Overflow: OverflowOldest},
		{Name: "sums", Per: true, Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Sum}, Decimals: 2, Max: 64, Overflow: OverflowOldest},
		{Name: "words", Per: true, Kind: Texts, Last: 3, Aggregates: []Aggregate{Distinct}},
	}
}

func aggregateState(t testing.TB, s *Set) store {
	c, state := s.NewCell(), store{}
	for n := range int64(140) {
		at := 1_700_000_000_000_000 + n*250_000
		for i := range s.Len() {
			var err error
			if s.Per(i) {
				err = s.Split(c, i, fmt.Sprintf("group %d", n%3))
			}
			if err != nil {
				t.Fatal(err)
			}
			switch s.Kind(i) {
			case Texts:
				err = s.AddText(c, i, at, fmt.Sprintf("text %d", n%7))
			case Ints:
				err = s.AddInt(c, i, at, -n<<50)
			default:
				err = s.Add(c, i, at, float64(n*n)/4)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Changes(c, nil, state.put)
	return state
}

// TestStoredBytesOfAggregatesStayReadable pins what is stored.
func TestStoredBytesOfAggregatesStayReadable(t *testing.T) {
	comparePinned(t, aggregateSpecs(t), [3]string{
		"9008fe80478b2ab28d0c2dad044186423f91b41643632bcf5f019fac3d9ee491",
		"0101e0f883a3838985060486fa8fa2010328b8d73e0094d0b3e02c00c0edfd5c0080f8ebb585f2a3",
		"df711bfc07ccf2ff753151288dfbd15c6ba32bfe8ffb82dd55ef5e836becb49f",
	})
	comparePinned(t, groupedSpecs(t), [3]string{
		"00dd8f4fd262ecb3f74189b58082b16e1f663cb34bba465a6ec91861ef689592",
		"0101e0f883a38389850602e0dd95a08389850602000c80a0b4a0838985060767726f75702032a0c2",
		"09b1f22864f287c8f5b9bd565fd5e4c267e2514dd0303c36d2a09cf738aa1678",
	})
}

// comparePinned compares the digest, the begin of the header and the hash of all entries.
func comparePinned(t *testing.T, specs []Spec, want [3]string) {
	t.Helper()
	s := setOf(t, specs...)
	state, sum := aggregateState(t, s), sha256.New()
	for _, sub := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(sum, "%q %q\n", sub, state[sub])
	}
	header := state[""]
	for what, texts := range map[string][2]string{
		"digest":  {s.Digest(), want[0]},
		"header":  {hex.EncodeToString([]byte(header[:40])), want[1]},
		"entries": {hex.EncodeToString(sum.Sum(nil)), want[2]},
	} {
		if texts[0] != texts[1] {
			t.Errorf("%s is\n%s, want\n%s", what, texts[0], texts[1])
		}
	}
}

// stored returns a header, and a block for each other sub-key.
func stored(header, block []byte) func(sub []byte) ([]byte, error) {
	return func(sub []byte) ([]byte, error) {
		if len(sub) == 0 {
			return header, nil
		}
		return block, nil
	}
}

// FuzzLoadAggregates loads changed bytes: they are an error, or a cell that can be used.
func FuzzLoadAggregates(f *testing.F) {
	s := setOf(f, slices.Concat(aggregateSpecs(f), groupedSpecs(f), sketchSpecs(f))...)
	state := aggregateState(f, s)
	for sub, block := range state {
		if sub != "" {
			f.Add([]byte(state[""]), []byte(block))
		}
	}
	f.Fuzz(func(t *testing.T, header, block []byte) {
		c, err := s.Load(stored(header, block))
		if err != nil {
			return
		}
		at, _ := c.Last()
		for i := range s.Len() {
			s.ReadValues(c, i, at, false, make([]Value, 8))
			if s.Kind(i) == Numbers {
				s.Read(c, i, at, make([]float64, 8))
				s.Add(c, i, at, 1)
			} else if s.Kind(i) == Texts {
				s.AddText(c, i, at, "one more")
			}
		}
		s.Changes(c, nil, func(_, _ []byte) {})
	})
}
