package tree

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// rowsOf is one row.
func rowsOf[T float32 | float64](values ...T) model.Rows {
	rows := model.Rows{Width: len(values)}
	for _, value := range values {
		rows.Values = append(rows.Values, float64(value))
	}
	return rows
}

// rounded returns numbers as float32.
func rounded(numbers []float64) []float32 {
	list := make([]float32, len(numbers))
	round(numbers, list)
	return list
}

func TestInfoDescribesTheFile(t *testing.T) {
	data := unpack(t, "testdata/fraud.ubj.gz")
	file := filepath.Join(t.TempDir(), "fraud.model") // the name says nothing of the format
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	info := m.Info()
	if info.Digest != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Errorf("digest %s", info.Digest)
	}
	if info.Kind != "xgboost" || info.Width() != 30 || info.Scores() != 1 || info.Trees != 300 {
		t.Errorf("%+v", info)
	}
	if len(info.Names()) != 30 || info.Names()[0] != "amount" || info.Names()[29] != "channel" {
		t.Errorf("names %q", info.Names())
	}
}

// XGBoost's scikit-learn wrapper predicts with the trees up to the best iteration, a
// Booster with all of them; both write best_iteration. Values are those of XGBoost 3.2.
func TestTreesBehindTheBestIterationCountAsXGBoostCountsThem(t *testing.T) {
	for name, want := range map[string][]float32{
		"early-stopped": {0.03165058791637421, 0.8069854974746704, 0.3338426649570465},
		"early-booster": {-2.2545647621154785, 2.4770307540893555, 1.0344529151916504},
	} {
		m := load(t, name+".json")
		rows := rowsOf[float32](0.001230153371579945, 0.2987455427646637, -0.27413785457611084, -0.8905918598175049, -0.454670786857605, -0.9916465282440186)
		rows.Width = 2
		got := make([]float32, 3)
		if m.Margins(rows, got); !slices.Equal(got, want) {
			t.Errorf("%s: margins %v, XGBoost has %v", name, got, want)
		}
		trees, said := 8, "trees: all, although training found its best iteration at 1, with the first 2 trees"
		if name == "early-stopped" {
			trees, said = 2, "trees: best, the first 2 of 8, as XGBoost's scikit-learn wrapper predicts"
		}
		if info := m.Info(); info.Trees != trees || !strings.Contains(info.Describe, said) {
			t.Errorf("%s: %d trees, %s", name, info.Trees, info.Describe)
		}
	}
	if info := load(t, "kind-1.7.6-targets.ubj").Info(); strings.Contains(info.Describe, "best iteration") {
		t.Errorf("%q", info.Describe)
	}
}

func TestTreesCanBeChosen(t *testing.T) {
	for _, c := range []struct {
		name, trees string
		want        int
		refused     string
	}{
		{"early-stopped.json", "all", 8, ""}, {"early-stopped.json", "best", 2, ""}, {"early-booster.json", "all", 8, ""}, {"early-booster.json", "best", 2, ""},
		{"early-booster.json", "some", 0, `trees: "some" is not known`}, {"small-base.ubj", "best", 0, "the file has no best_iteration"}, {"small-base.ubj", "all", 12, ""},
		{"catboost-rmse.json", "best", 0, "a file of kind catboost has no best iteration"},
	} {
		m, err := ParseWith(c.name, unpack(t, "testdata/"+c.name+".gz"), Options{Trees: c.trees})
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil:
			t.Error(err)
		case m.Info().Trees != c.want || m.Info().Ambiguous != "":
			t.Errorf("%+v: %+v", c, m.Info())
		}
	}
	for name, want := range map[string]string{"early-stopped.json": "", "small-base.ubj": "", "early-booster.json": "all 8 trees are used, as in Booster.predict, although the first 2 are the best of the file: write trees: all or trees: best"} {
		if got := load(t, name).Info().Ambiguous; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestCheckRefusesWhatXGBoostRefuses(t *testing.T) {
	m := load(t, "small-base.ubj")
	row := make([]float64, 6)
	infinity := math.Inf(1)
	for _, accepted := range []float64{0, math.NaN(), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32} {
		row[3] = accepted
		if err := m.Check(row, nil); err != nil {
			t.Errorf("%g: %v", accepted, err)
		}
	}
	for _, refused := range []float64{infinity, -infinity, 1e39} {
		row[3] = refused
		if err := m.Check(row, nil); err == nil || !strings.Contains(err.Error(), "input 3: it is") {
			t.Errorf("%g: %v", refused, err)
		}
	}
	if err := m.Check(row[:5], nil); err == nil {
		t.Error("a short row passes")
	}
	named := load(t, "fraud.ubj")
	row = make([]float64, 30)
	row[1] = infinity
	if err := named.Check(row, nil); err == nil || !strings.Contains(err.Error(), `input "hour": it is +Inf`) {
		t.Errorf("named: %v", err)
	}
}

func TestPredictRefusesRowsOfAnotherShape(t *testing.T) {
	m := load(t, "small-base.ubj")
	ctx := context.Background()
	for name, c := range map[string]struct {
		rows   model.Rows
		scores int
	}{
		"another width": {model.Rows{Width: 5, Values: make([]float64, 30)}, 6},
		"half a row":    {model.Rows{Width: 6, Values: make([]float64, 9)}, 2},
		"no room":       {model.Rows{Width: 6, Values: make([]float64, 12)}, 1},
	} {
		if err := m.Predict(ctx, c.rows, make([]float32, c.scores)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := m.Predict(ctx, model.Rows{Width: 6}, nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := m.Predict(ended, model.Rows{Width: 6, Values: make([]float64, 6)}, make([]float32, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestPredictWritesOnlyTheScoresOfItsRows(t *testing.T) {
	m := load(t, "small-base.ubj")
	scores := []float32{-1, -1, -1}
	if err := m.Predict(context.Background(), model.Rows{Width: 6, Values: make([]float64, 12)}, scores); err != nil {
		t.Fatal(err)
	}
	if scores[0] < 0 || scores[0] != scores[1] || scores[2] != -1 {
		t.Errorf("%v", scores)
	}
}

func TestPredictDoesNotAllocate(t *testing.T) {
	m := load(t, "small-base.ubj")
	ctx, scores := context.Background(), make([]float32, 130)
	for _, n := range []int{1, 130} {
		rows := model.Rows{Width: 6, Values: make([]float64, 6*n)}
		allocations := testing.AllocsPerRun(200, func() {
			if err := m.Predict(ctx, rows, scores); err != nil {
				t.Fatal(err)
			}
		})
		if allocations != 0 && !raceEnabled() {
			t.Errorf("%d rows: %g allocations", n, allocations)
		}
	}
}

// raceEnabled reports whether sync.Pool drops at random, which it does under
// the race detector only.
func raceEnabled() bool {
	kept := sync.Pool{}
	for range 64 {
		value := new(int)
		kept.Put(value)
		if kept.Get() == nil {
			return true
		}
	}
	return false
}

func TestConcurrentCallsScoreAlike(t *testing.T) {
	m := load(t, "small-deep.json")
	g := readGolden(t, "testdata/small-deep.golden.gz")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			out := make([]float32, 200)
			for round := range 20 {
				n := 1 + (worker*31+round*7)%200
				m.Margins(model.Rows{Width: 6, Values: g.rows.Values[:n*6]}, out)
				if !slices.Equal(out[:n], g.margins[0][:n]) {
					t.Errorf("worker %d: %d rows score otherwise", worker, n)
				}
			}
		})
	}
	group.Wait()
}

// As many inputs and as many nodes in a tree as the flat form can address: the
// check at load compares it with a plain walk.
func TestWidestAndLargestTreesAreScored(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	e := &ensemble{inputs: inputsMax}
	for range 9 {
		e.parts = append(e.parts, part{nodes: randomTree(random, nodesMax-1, inputsMax)})
	}
	f, b := flatten(e, []float32{0.5}), layBlocks(e, []float32{0.5})
	rows := generate(e, verifyRows)
	if err := verify(e, f, b, kernels(), rows); err != nil {
		t.Fatal(err)
	}
	f.nodes[0].below ^= 1 << 30
	if verify(e, f, b, kernels(), rows) == nil {
		t.Error("a damaged tree passes")
	}
	f.nodes[0].below ^= 1 << 30
	b.forks[0].question ^= 1
	if verify(e, f, b, kernels(), rows) == nil {
		t.Error("a damaged loose tree passes")
	}
}

func TestThresholdsOfEveryKindSplitAsFloats(t *testing.T) {
	infinity, missing := float32(math.Inf(1)), float32(math.NaN())
	zero := float32(0)
	values := []float32{
		-infinity, -math.MaxFloat32, -1, -math.SmallestNonzeroFloat32, -zero, zero,
		math.SmallestNonzeroFloat32, 1, math.MaxFloat32, infinity,
	}
	values[4] = float32(math.Copysign(0, -1))
	for _, threshold := range values {
		for _, defaultLeft := range []bool{false, true} {
			root := split{left: 1, right: 2, value: float64(threshold), defaultLeft: defaultLeft}
			same := part{nodes: []split{root, {left: noChild, value: 1}, {left: noChild, value: 2}}}
			e := &ensemble{inputs: 1, parts: slices.Repeat([]part{same}, lanes+1)}
			f, b := flatten(e, []float32{0}), layBlocks(e, []float32{0})
			out, want := make([]float32, 1), make([]float32, 1)
			for _, value := range append(values, missing) {
				walk(e, f, []float32{value}, want)
				for _, k := range kernels() {
					if f.score(&k, f.scratch(), []float32{value}, out); out[0] != want[0] {
						t.Errorf("kernel %s, alone: %g at threshold %g, default left %v: leaf %g, want %g", k.name, value, threshold, defaultLeft, out[0], want[0])
					}
					if b.score(&k, b.scratch(), []float32{value}, out); out[0] != want[0] {
						t.Errorf("kernel %s: %g at threshold %g, default left %v: leaf %g, want %g", k.name, value, threshold, defaultLeft, out[0], want[0])
					}
				}
			}
		}
	}
}

// randomTree grows a tree of n nodes, n odd, by splitting random leaves.
func randomTree(random *rand.Rand, n, inputs int) []split {
	leaf := func() split { return split{left: noChild, right: noChild, value: float64(random.Float32())} }
	nodes, leaves := []split{leaf()}, []int32{0}
	for len(nodes) < n {
		pick := random.IntN(len(leaves))
		at := leaves[pick]
		left := int32(len(nodes))
		nodes[at] = split{left: left, right: left + 1, input: int32(random.IntN(inputs)), value: float64(random.Float32() - 0.5), defaultLeft: random.IntN(2) == 0}
		nodes = append(nodes, leaf(), leaf())
		leaves[pick] = left
		leaves = append(leaves, left+1)
	}
	return nodes
}

func TestExponentIsWithinAHundredthOfTheNearestFloat(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 0))
	worst := 0.0
	for i := range 3000 {
		x := random.Float32()*175 - 87
		if i%3 == 0 {
			x = float32(math.Ldexp(random.Float64()-0.5, -random.IntN(40)))
		}
		got := exponent(x)
		unit := float64(math.Nextafter32(got, math.MaxFloat32)) - float64(got)
		apart, _ := new(big.Float).Sub(bigExponent(float64(x)), big.NewFloat(float64(got))).Float64()
		worst = max(worst, math.Abs(apart)/unit)
	}
	t.Logf("worst %.3f units in the last place", worst)
	if worst > 0.51 {
		t.Errorf("worst is %.3f units in the last place", worst)
	}
	infinity := float32(math.Inf(1))
	for x, want := range map[float32]float32{
		0: 1, 88.72283: 3.4027985e38, 88.72284: infinity, 1e30: infinity, infinity: infinity,
		-103.9: math.SmallestNonzeroFloat32, -104: 0, -1e30: 0, -infinity: 0,
	} {
		if got := exponent(x); got != want {
			t.Errorf("e^%g = %g, want %g", x, got, want)
		}
	}
	if got := exponent(float32(math.NaN())); got == got {
		t.Errorf("e^NaN = %g", got)
	}
}

// bigExponent is (e^(x/2^20))^(2^20) by the series, in 200 bits.
func bigExponent(x float64) *big.Float {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	part := number(math.Ldexp(x, -20))
	sum, term := number(1), number(1)
	for i := 1; i < 30; i++ {
		term.Mul(term, part)
		term.Quo(term, number(float64(i)))
		sum.Add(sum, term)
	}
	for range 20 {
		sum.Mul(sum, sum)
	}
	return sum
}

func TestProbabilityStaysWithinZeroAndOne(t *testing.T) {
	last := float32(0)
	for margin := float32(-120); margin < 120; margin += 0.37 {
		p := probability(margin)
		if p < last || p > 1 {
			t.Fatalf("margin %g has probability %g after %g", margin, p, last)
		}
		last = p
	}
	for margin, want := range map[float32]float32{0: 0.5, 200: 1, math.MaxFloat32: 1} {
		if got := probability(margin); got != want {
			t.Errorf("margin %g: %g", margin, got)
		}
	}
	if p := probability(-math.MaxFloat32); p <= 0 || p > 1e-37 {
		t.Errorf("least margin: %g", p)
	}
}

func BenchmarkPredict(b *testing.B) { benchmarkPredict(b, "fraud.ubj") }

func BenchmarkPredictCategories(b *testing.B) { benchmarkPredict(b, "categories.ubj") }

func BenchmarkPredictClasses(b *testing.B) { benchmarkPredict(b, "classes.ubj") }

func benchmarkPredict(b *testing.B, name string) {
	m := load(b, name)
	g := readGolden(b, "testdata/rows.golden.gz")
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("rows=%d", batch), func(b *testing.B) {
			ctx, scores, at := context.Background(), make([]float32, batch*m.Info().Scores()), 0
			b.ReportAllocs()
			for b.Loop() {
				part := model.Rows{Width: g.rows.Width, Values: g.rows.Values[at*g.rows.Width : (at+batch)*g.rows.Width]}
				if err := m.Predict(ctx, part, scores); err != nil {
					b.Fatal(err)
				}
				if at += batch; at+batch > g.rows.Len() {
					at = 0
				}
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkNarrow turns numbers into what kernels compare: by rounding, as the inputs of
// XGBoost, and by a scale, numbers that float32 holds and numbers that are looked up.
func BenchmarkNarrow(b *testing.B) {
	const width, rows = 16, 64
	k := kernels()[0]
	to := make([]float32, width*rows)
	run := func(name string, numbers []float64, scales []*scale) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				narrowRows(&k, to, numbers, scales)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(numbers)), "ns/number")
		})
	}
	rng := rand.New(rand.NewPCG(7, 7))
	held, others := make([]float64, width*rows), make([]float64, width*rows)
	for i := range held {
		held[i] = float64(rng.IntN(1 << 24))
		others[i] = held[i] + 1/3.
	}
	run("rounded", others, nil)
	for _, thresholds := range []int{16, 256, 4096} {
		scales := make([]*scale, width)
		for i := range scales {
			scales[i] = &scale{}
			for at := range thresholds {
				scales[i].thresholds = append(scales[i].thresholds, (float64(at)+0.3)/float64(thresholds)*(1<<24))
			}
			if err := scales[i].settle(false); err != nil {
				b.Fatal(err)
			}
		}
		run(fmt.Sprintf("held/thresholds=%d", thresholds), held, scales)
		run(fmt.Sprintf("looked-up/thresholds=%d", thresholds), others, scales)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, kind := range []string{"json", "ubj"} {
		b.Run(kind, func(b *testing.B) {
			data := unpack(b, "testdata/fraud."+kind+".gz")
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("fraud", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
