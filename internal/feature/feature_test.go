package feature

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

func TestParseWindow(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]Window{
		"60s":       {Name: "60s", Size: time.Minute},
		"60s/5s":    {Name: "60s", Size: time.Minute, Pane: 5 * time.Second},
		"1h":        {Name: "1h", Size: time.Hour},
		"7d":        {Name: "7d", Size: 7 * day},
		"7d/1d":     {Name: "7d", Size: 7 * day, Pane: day},
		"1d12h/36m": {Name: "1d12h", Size: 36 * time.Hour, Pane: 36 * time.Minute},
		"366d":      {Name: "366d", Size: 366 * day},
		"1s/1ms":    {Name: "1s", Size: time.Second, Pane: time.Millisecond},
		"90m/0.5h":  {Name: "90m", Size: 90 * time.Minute, Pane: 30 * time.Minute},
		"10s/10s":   {Name: "10s", Size: 10 * time.Second, Pane: 10 * time.Second},
	} {
		if got, err := ParseWindow(text); err != nil || got != want {
			t.Errorf("ParseWindow(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"":               "is not a duration",
		"60":             "is not a duration",
		"sixty":          "is not a duration",
		"-60s":           "is not a duration",
		"+60s":           "is not a duration",
		"d":              "whole number",
		"1.5d":           "whole number",
		"-1d":            "whole number",
		"1d-5s":          "is not a duration",
		"1d2d":           "is not a duration",
		"1d 2h":          "is not a duration",
		"60s/":           "is not a duration",
		"/5s":            "is not a duration",
		"60s/5s/1s":      "is not a duration",
		"60s/0s":         "leave out the pane",
		"60s/7s":         "not a multiple",
		"60s/-5s":        "is not a duration",
		"5s/60s":         "not a multiple",
		"1001s/1s":       "more than 1,000",
		"999ms":          "outside of 1s to 366d",
		"0s":             "outside of 1s to 366d",
		"367d":           "outside of 1s to 366d",
		"366d1s":         "outside of 1s to 366d",
		"511d":           "outside of 1s to 366d",
		"512d":           "whole number",
		"99999999h":      "is not a duration",
		"9000h":          "longer than 366 days",
		"2s1ns":          "whole ones",
		"2s/1ns":         "whole ones",
		"1.5h":           "digits and letters",
		"1000000\u00b5s": "digits and letters",
	} {
		if w, err := ParseWindow(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseWindow(%q) = %+v, %v, want an error with %q", text, w, err, why)
		}
	}
}

func TestParseAggregate(t *testing.T) {
	for _, want := range []Aggregate{Count, Sum, Mean, Max, Min, Variance, Stddev, Slope} {
		if got, err := ParseAggregate(want.String()); err != nil || got != want {
			t.Errorf("ParseAggregate(%q) = %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "Count", "median", "Aggregate(0)"} {
		if _, err := ParseAggregate(text); err == nil {
			t.Errorf("ParseAggregate(%q) is no error", text)
		}
	}
}

func TestWrongSpecsAreNamed(t *testing.T) {
	minute := windowsOf(t, "60s")
	sum := []Aggregate{Sum}
	for why, spec := range map[string]Spec{
		"needs a name":             {Windows: minute, Aggregates: sum},
		"exactly one of":           {Name: "x", Aggregates: sum},
		"exactly one of windows":   {Name: "x", Windows: minute, Last: 1, Aggregates: sum},
		"exactly one of windows, ": {Name: "x", Elapsed: true, Last: 1},
		"empty is NaN":             {Name: "x", Windows: minute, Aggregates: sum, Empty: math.NaN()},
		"leave out the aggregates": {Name: "x", Elapsed: true, Aggregates: sum},
		"last is 1001":             {Name: "x", Last: 1001, Aggregates: sum},
		"last is -1":               {Name: "x", Last: -1, Aggregates: sum},
		"decimals are 10":          {Name: "x", Windows: minute, Aggregates: sum, Decimals: 10},
		"decimals are -2":          {Name: "x", Windows: minute, Aggregates: sum, Decimals: -2},
		"at least one aggregate":   {Name: "x", Windows: minute},
		"Aggregate(99) is unknown": {Name: "x", Windows: minute, Aggregates: []Aggregate{99}},
		"slope needs times":        {Name: "x", Last: 3, Aggregates: []Aggregate{Slope}},
		"sum occurs twice":         {Name: "x", Windows: minute, Aggregates: []Aggregate{Sum, Count, Sum}},
		"\"60s\" occurs twice":     {Name: "x", Windows: windowsOf(t, "60s", "60s/5s"), Aggregates: sum},
		"not a multiple":           {Name: "x", Windows: []Window{{Name: "7s", Size: 7 * time.Second, Pane: 2 * time.Second}}, Aggregates: sum},
		"needs a name, the text":   {Name: "x", Windows: []Window{{Size: 7 * time.Second}}, Aggregates: sum},
		"the name is taken":        {Name: "good", Elapsed: true},
		"max is 63: use 64":        {Name: "x", Windows: minute, Aggregates: sum, Max: 63},
		"max is -1":                {Name: "x", Windows: minute, Aggregates: sum, Max: -1},
		"entries, 32 MB of one":    {Name: "x", Windows: minute, Aggregates: sum, Max: 1 << 21},
		"Overflow(3) is unknown":   {Name: "x", Windows: minute, Aggregates: sum, Overflow: 3},
		"for exact windows":        {Name: "x", Windows: windowsOf(t, "60s/5s"), Aggregates: sum, Max: 64},
		"max and overflow are for": {Name: "x", Elapsed: true, Overflow: OverflowDead},
	} {
		_, err := NewSet([]Spec{{Name: "good", Elapsed: true}, spec})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("NewSet(%+v): %v, want an error with %q", spec, err, why)
		}
	}
}

func TestColumnsAreInTheOrderWritten(t *testing.T) {
	s := setOf(t,
		Spec{Name: "spend", Windows: windowsOf(t, "300s/30s", "60s"), Aggregates: []Aggregate{Sum, Count}},
		Spec{Name: "past", Last: 10, Aggregates: []Aggregate{Mean, Max}, Decimals: -1},
		Spec{Name: "gap", Elapsed: true},
	)
	want := [][]string{{"sum_300s", "count_300s", "sum_60s", "count_60s"}, {"mean", "max"}, {""}}
	for i := range s.Len() {
		if got := s.Columns(i); !slices.Equal(got, want[i]) {
			t.Errorf("columns of %d are %q, want %q", i, got, want[i])
		}
	}
	if s.Retention() != 5*time.Minute || !s.KeepsForever() {
		t.Errorf("retention %v, keeps for ever %t", s.Retention(), s.KeepsForever())
	}
}

func TestDigestTellsWhatStoredCellsMean(t *testing.T) {
	base := func() Spec {
		return Spec{Name: "f", Windows: windowsOf(t, "60s/5s", "300s"), Aggregates: []Aggregate{Sum, Count}, Decimals: 2}
	}
	digest := func(change func(*Spec)) string {
		spec := base()
		change(&spec)
		return setOf(t, spec).Digest()
	}
	same := digest(func(*Spec) {})
	for what, change := range map[string]func(*Spec){
		"empty": func(s *Spec) { s.Empty = 7 },
		"order": func(s *Spec) { s.Aggregates = []Aggregate{Count, Sum} },
		"mean":  func(s *Spec) { s.Aggregates = []Aggregate{Count, Mean} },
		"most":  func(s *Spec) { s.Max = 65_536 },
	} {
		if digest(change) != same {
			t.Errorf("%s changes the digest, but not what is stored", what)
		}
	}
	seen := map[string]string{same: "nothing"}
	for what, change := range map[string]func(*Spec){
		"name":     func(s *Spec) { s.Name = "g" },
		"pane":     func(s *Spec) { s.Windows = windowsOf(t, "60s/10s", "300s") },
		"exact":    func(s *Spec) { s.Windows = windowsOf(t, "60s", "300s") },
		"size":     func(s *Spec) { s.Windows = windowsOf(t, "60s/5s", "301s") },
		"order":    func(s *Spec) { s.Windows = windowsOf(t, "300s", "60s/5s") },
		"decimals": func(s *Spec) { s.Decimals = 3 },
		"floats":   func(s *Spec) { s.Decimals = -1 },
		"max":      func(s *Spec) { s.Aggregates = append(s.Aggregates, Max) },
		"min":      func(s *Spec) { s.Aggregates = append(s.Aggregates, Min) },
		"most":     func(s *Spec) { s.Max = 65_537 },
		"overflow": func(s *Spec) { s.Overflow = OverflowDead },
		"counts":   func(s *Spec) { s.Aggregates = []Aggregate{Count} },
		"last":     func(s *Spec) { s.Windows, s.Last = nil, 3 },
		"more":     func(s *Spec) { s.Windows, s.Last = nil, 4 },
		"elapsed":  func(s *Spec) { s.Windows, s.Aggregates, s.Elapsed = nil, nil, true },
	} {
		d := digest(change)
		if before, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", what, before)
		}
		seen[d] = what
	}
}

// TestPanesAreThoseOfTheBaseline ports the pane windows of the benchmark's
// reference, which other engines run too, and compares 12 columns bit for bit.
func TestPanesAreThoseOfTheBaseline(t *testing.T) {
	type pane struct{ count, sum, max int64 }
	windows := []struct{ ms, n int64 }{{5_000, 12}, {30_000, 10}, {60_000, 60}}
	seeds.Run(t, 5, func(t *testing.T, random *rand.Rand) {
		s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s/5s", "300s/30s", "3600s/60s"), Aggregates: four, Decimals: 2})
		c, got := s.NewCell(), make([]float64, 12)
		state := []map[int64]pane{{}, {}, {}}
		now := int64(1_790_000_000_000)
		for range 5_000 {
			now += random.Int63n(20_000)
			ts, amount := now, math.Round(random.ExpFloat64()*8_000)/100
			if random.Intn(10) == 0 {
				ts -= random.Int63n(400_000)
			}
			cents := int64(math.RoundToEven(amount * 100))
			var want []float64
			for k, w := range windows {
				i, panes := ts/w.ms, state[k]
				if p, ok := panes[i]; ok {
					panes[i] = pane{p.count + 1, p.sum + cents, max(p.max, cents)}
				} else {
					newest := i
					for at := range panes {
						newest = max(newest, at)
					}
					if i > newest-w.n {
						for at := range panes {
							if at <= newest-w.n {
								delete(panes, at)
							}
						}
						panes[i] = pane{1, cents, cents}
					}
				}
				var all pane
				for at, p := range panes {
					if at <= i {
						all = pane{all.count + p.count, all.sum + p.sum, max(all.max, p.max)}
					}
				}
				mean := 0.0
				if all.count > 0 {
					mean = float64(all.sum) / 100 / float64(all.count)
				}
				want = append(want, float64(all.count), float64(all.sum)/100, mean, float64(all.max)/100)
			}
			if err := s.Add(c, 0, ts*1000, amount); err != nil {
				t.Fatal(err)
			}
			s.Read(c, 0, ts*1000, got)
			if !slices.Equal(got, want) {
				t.Fatalf("at %d: %v, want %v", ts, got, want)
			}
		}
	})
}

func TestElapsedAndLast(t *testing.T) {
	s := setOf(t,
		Spec{Name: "gap", Elapsed: true, Empty: -1},
		Spec{Name: "past", Last: 3, Aggregates: []Aggregate{Mean, Count, Max, Min, Sum}, Decimals: -1, Empty: 9},
	)
	c, out := s.NewCell(), make([]float64, 5)
	if _, ok := c.Last(); ok {
		t.Error("a new cell has a newest event")
	}
	for _, step := range []struct {
		t    int64
		v    float64
		gap  float64
		past []float64
	}{
		{1_000_000, 4, -1, []float64{9, 0, 9, 9, 0}},
		{3_500_000, 2, 2.5, []float64{4, 1, 4, 4, 4}},
		{2_000_000, 3, 0, []float64{3, 2, 4, 2, 6}},
		{3_500_001, 1, 1e-6, []float64{3, 3, 4, 2, 9}},
		{3_500_001, 0, 0, []float64{2, 3, 3, 1, 6}},
		{1_500_000, 0, 0, []float64{4. / 3, 3, 3, 0, 4}},
	} {
		s.Read(c, 0, step.t, out)
		if out[0] != step.gap {
			t.Errorf("at %d: gap %v, want %v", step.t, out[0], step.gap)
		}
		s.Read(c, 1, step.t, out)
		if !slices.Equal(out, step.past) {
			t.Errorf("at %d: past %v, want %v", step.t, out, step.past)
		}
		for i := range 2 {
			if err := s.Add(c, i, step.t, step.v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last, ok := c.Last(); !ok || last != 3_500_001 {
		t.Errorf("newest event %d, %t", last, ok)
	}
}

func TestValuesThatDoNotFitAreErrors(t *testing.T) {
	s := setOf(t,
		Spec{Name: "cents", Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Sum}, Decimals: 2},
		Spec{Name: "floats", Last: 2, Aggregates: []Aggregate{Sum}, Decimals: -1},
		Spec{Name: "counts", Windows: windowsOf(t, "60s/5s"), Aggregates: []Aggregate{Count}, Decimals: 2},
	)
	c := s.NewCell()
	for i, values := range [][]float64{
		{math.NaN(), math.Inf(1), math.Inf(-1), 1e14, -1e14, math.MaxFloat64, 1 << 53},
		{math.NaN(), math.Inf(1)},
	} {
		for _, v := range values {
			if err := s.Add(c, i, 5, v); err == nil {
				t.Errorf("feature %d takes %v", i, v)
			}
		}
	}
	s.Changes(c, nil, func(sub, _ []byte) { t.Errorf("an error changed %q", sub) })
	for i, v := range []float64{(1 << 53) / 100, math.MaxFloat64, math.NaN()} {
		if err := s.Add(c, i, 5, v); err != nil {
			t.Errorf("feature %d: %v", i, err)
		}
	}
	out := make([]float64, 1)
	for v, want := range map[float64]float64{0.125: 0.12, 0.375: 0.38, -0.125: -0.12, 1.005: 1, 2.675: 2.68} {
		s.Reset(c)
		if err := s.Add(c, 0, 5, v); err != nil {
			t.Fatal(err)
		}
		if s.Read(c, 0, 5, out); out[0] != want {
			t.Errorf("%v is kept as %v, want %v", v, out[0], want)
		}
	}
}

// TestOverflowGoesOverToPanes fills an exact window beyond the limit and lets
// it run empty.
func TestOverflowGoesOverToPanes(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s", "1s"), Aggregates: []Aggregate{Count}, Decimals: 0})
	c, state, out := s.NewCell(), store{}, make([]float64, 2)
	for n := range int64(defaultEntries) {
		if err := s.Add(c, 0, n, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.Changes(c, nil, state.put)
	if s.Approximate(c, 0) || len(state) != 1+defaultEntries/64 {
		t.Fatalf("%d entries are too many, or %d state entries the wrong number", defaultEntries, len(state))
	}
	if err := s.Add(c, 0, defaultEntries, 0); err != nil {
		t.Fatal(err)
	}
	s.Changes(c, nil, state.put)
	if !s.Approximate(c, 0) || len(state) != 1 || c.Bytes() > 2000 {
		t.Fatalf("approximate %t, %d state entries, %d bytes", s.Approximate(c, 0), len(state), c.Bytes())
	}
	if s.Read(c, 0, defaultEntries, out); out[0] != defaultEntries+1 || out[1] != defaultEntries+1 {
		t.Errorf("counts %v, want %d", out, defaultEntries+1)
	}
	c, err := s.Load(state.get)
	if err != nil {
		t.Fatal(err)
	}
	minute := time.Minute.Microseconds()
	for _, step := range []struct {
		t     int64
		over  bool
		count float64
	}{
		{defaultEntries + minute - 1, true, 2},
		{defaultEntries + 2*minute - 2, true, 2},
		{defaultEntries + 3*minute - 2, false, 1},
		{defaultEntries + 3*minute - 1, false, 2},
	} {
		if err := s.Add(c, 0, step.t, 0); err != nil {
			t.Fatal(err)
		}
		s.Read(c, 0, step.t, out)
		if s.Approximate(c, 0) != step.over || out[1] > step.count {
			t.Errorf("at %d: approximate %t, counts %v, want %+v", step.t, s.Approximate(c, 0), out, step)
		}
	}
}

// TestExtremeTimesDoNotOverflow adds and reads at the ends of int64.
func TestExtremeTimesDoNotOverflow(t *testing.T) {
	s := setOf(t,
		Spec{Name: "f", Windows: windowsOf(t, "366d", "60s/5s", "1s"), Aggregates: four, Decimals: 2},
		Spec{Name: "gap", Elapsed: true},
	)
	out := make([]float64, 12)
	times := []int64{0, math.MinInt64, math.MaxInt64, -1, 1, math.MinInt64 + 1, math.MaxInt64 - 1}
	for _, first := range times {
		for _, second := range times {
			c, state := s.NewCell(), store{}
			for _, at := range []int64{first, second} {
				for i := range 2 {
					if err := s.Add(c, i, at, 1); err != nil {
						t.Fatal(err)
					}
				}
				if s.Read(c, 0, max(first, at), out); out[0] < 1 || out[4] < 1 || out[8] < 1 {
					t.Errorf("%d, %d: %v", first, second, out)
				}
				if s.Read(c, 1, at, out); out[0] < 0 {
					t.Errorf("%d, %d: elapsed %v", first, second, out[0])
				}
			}
			s.Changes(c, nil, state.put)
			if _, err := s.Load(state.get); err != nil {
				t.Errorf("%d, %d: %v", first, second, err)
			}
		}
	}
}

// TestStoredBytesStayReadable holds the bytes of format 1: files of it are read
// for ever.
func TestStoredBytesStayReadable(t *testing.T) {
	s := goldenSet(t)
	c := s.NewCell()
	for n := range int64(70) {
		for i := range s.Len() {
			if err := s.Add(c, i, 1_700_000_000_000_000+n*250_000, float64(n)/4); err != nil {
				t.Fatal(err)
			}
		}
	}
	var header, block []byte
	s.Changes(c, nil, func(sub, value []byte) {
		if len(sub) == 0 {
			header = bytes.Clone(value)
		} else {
			block = bytes.Clone(value)
		}
	})
	for what, texts := range map[string][2]string{
		"digest": {s.Digest(), "5ab9a44e01fbf1089186d455dedc04e81770168f4b63e522275a8100b6fa09a7"},
		"header": {hex.EncodeToString(header), "0101a0dbab928389850601a0dbab928389850602c062c0e280020000010680909391838985068019a0c21eb219a0c21ee419" +
			"a0c21e961aa0c21ec81aa0c21efa1a0282fa8fa2010128d8b0029e0f001ed6fe04fa1a"},
		"block": {hex.EncodeToString(block[:32]), "8080f2818389850600a0c21e32a0c21e64a0c21e9601a0c21ec801a0c21efa01"},
	} {
		if texts[0] != texts[1] {
			t.Errorf("%s is\n%s, want\n%s", what, texts[0], texts[1])
		}
	}
}

func goldenSet(t testing.TB) *Set { return setOf(t, goldenSpecs(t)...) }

func goldenSpecs(t testing.TB) []Spec {
	return []Spec{
		{Name: "gap", Elapsed: true},
		{Name: "past", Last: 2, Aggregates: []Aggregate{Mean}, Decimals: -1},
		{Name: "exact", Windows: windowsOf(t, "60s"), Aggregates: []Aggregate{Sum}, Decimals: 2},
		{Name: "panes", Windows: windowsOf(t, "60s/10s"), Aggregates: []Aggregate{Max, Mean}, Decimals: 2},
	}
}

func TestLoadRefusesWhatChangesCannotHavePut(t *testing.T) {
	s := goldenSet(t)
	c, state := s.NewCell(), store{}
	for n := range int64(200) {
		for i := range s.Len() {
			if err := s.Add(c, i, n*250_000, float64(n)/4); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Changes(c, nil, state.put)
	for sub, value := range state {
		for cut := range len(value) {
			broken := store{}
			for k, v := range state {
				broken[k] = v
			}
			broken[sub] = value[:cut]
			if _, err := s.Load(broken.get); err == nil {
				t.Errorf("%q cut to %d bytes is loaded", sub, cut)
			}
			broken[sub] = value + "\x00"
			if _, err := s.Load(broken.get); err == nil {
				t.Errorf("%q with a byte more is loaded", sub)
			}
		}
		if sub != "" {
			broken := store{"": state[""]}
			if _, err := s.Load(broken.get); err == nil {
				t.Error("missing blocks are no error")
			}
		}
	}
	gone := errors.New("gone")
	if _, err := s.Load(func([]byte) ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("Load with a failing get: %v", err)
	}
}

// TestEntriesLeaveWithTheLongestWindow holds what is stored at its very edge,
// which no read can show.
func TestEntriesLeaveWithTheLongestWindow(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "5s", "10s"), Aggregates: []Aggregate{Count}})
	const second = 1_000_000
	for _, entries := range []int{63, 64, 100} {
		c := s.NewCell()
		x := &c.exacts[0]
		add := func(at int64, blocks, tail int) {
			t.Helper()
			if err := s.Add(c, 0, at, 0); err != nil {
				t.Fatal(err)
			}
			if got := len(x.tailWords(&s.features[0].windows.entries)); x.blocks() != blocks || got != tail {
				t.Errorf("%d entries, then %d: %d blocks and %d entries, want %d and %d", entries, at, x.blocks(), got, blocks, tail)
			}
		}
		for n := range entries {
			add(0, (n+1)/64, (n+1)%64)
		}
		add(10*second-1, (entries+1)/64, (entries+1)%64)
		if entries == 63 { // which filled the block
			add(10*second, 1, 1)
			continue
		}
		add(10*second, 0, 2)
		add(0, 0, 2)
		add(1, 0, 3)
	}
}

func TestLoadRefusesPanesOutOfOrder(t *testing.T) {
	s := setOf(t, Spec{Name: "f", Windows: windowsOf(t, "60s/5s"), Aggregates: []Aggregate{Count}})
	for header, good := range map[string]bool{
		"\x01\x01\x00\x01\x00\x00\x01":         true,
		"\x01\x01\x00\x02\x00\x0b\x01\x00\x01": true,
		"\x01\x01\x00\x01\x00\x00\x00":         false, // no entries
		"\x01\x01\x00\x01\x00\x01\x01":         false, // not the newest
		"\x01\x01\x00\x02\x00\x0c\x01\x00\x01": false, // too far behind
		"\x01\x01\x00\x02\x00\x00\x01\x00\x01": false, // twice
		"\x01\x01\x00\x0d\x00\x0b\x01\x00\x01": false, // more than the window has
		"\x02\x01\x00\x01\x00\x00\x01":         false, // another format
		"\x01\x00\x01\x00\x00\x01":             false, // no newest time
	} {
		state := store{"": header}
		if _, err := s.Load(state.get); (err == nil) != good {
			t.Errorf("Load(%x): %v", header, err)
		}
	}
}

// FuzzLoad loads any bytes; what it takes must work and be stored as it is
// loaded again.
func FuzzLoad(f *testing.F) {
	specs := goldenSpecs(f)
	specs[2].Max = 256
	s := setOf(f, specs...)
	c, state := s.NewCell(), store{}
	for n := range int64(400) {
		for i := range s.Len() {
			if err := s.Add(c, i, n*250_000, float64(n)/4); err != nil {
				f.Fatal(err)
			}
		}
		if n%50 == 0 {
			var block []byte
			s.Changes(c, nil, state.put)
			for sub, value := range state {
				if sub != "" {
					block = []byte(value)
				}
			}
			f.Add([]byte(state[""]), block)
		}
	}
	f.Fuzz(func(t *testing.T, header, block []byte) {
		c, err := s.Load(stored(header, block))
		if err != nil {
			return
		}
		last, _ := c.Last()
		s.Touch(c, last)
		state, out := store{}, make([]float64, 4)
		s.Changes(c, nil, state.put)
		for sub := range state {
			if sub != "" {
				t.Errorf("block %q is written though it was loaded", sub)
			}
		}
		again, err := s.Load(func(sub []byte) ([]byte, error) {
			if len(sub) == 0 {
				return state.get(sub)
			}
			return block, nil
		})
		if err != nil {
			t.Fatalf("what was loaded does not load again: %v", err)
		}
		for _, at := range []int64{last, 0, last + 30_000_000, math.MaxInt64} {
			for i := range s.Len() {
				s.Read(c, i, at, out)
				if err := s.Add(again, i, at, 1); err != nil {
					t.Fatal(err)
				}
				s.Read(again, i, at, out)
			}
		}
		s.Changes(again, nil, store{}.put)
	})
}
