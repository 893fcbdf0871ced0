package tree

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/model"
)

// Thresholds and values of every kind against the comparison of Go, and not a
// byte behind the answers.
func TestKernelsAskAsGoCompares(t *testing.T) {
	const seed = 13
	random := rand.New(rand.NewPCG(seed, 0))
	infinity := float32(math.Inf(1))
	special := []float32{
		float32(math.NaN()), float32(math.Float32frombits(0xffc00001)), 0, float32(math.Copysign(0, -1)), infinity, -infinity,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 0x1p-126, 1,
	}
	pick := func() float32 {
		if random.IntN(2) == 0 {
			return special[random.IntN(len(special))]
		}
		return float32(random.IntN(9)-4) / 2
	}
	for _, k := range vectorKernels() {
		for count := 1; count < 40; count++ {
			var values [blockRows]float32
			for i := range values {
				values[i] = pick()
			}
			thresholds := make([]float32, count)
			for i := range thresholds {
				for thresholds[i] = pick(); thresholds[i] != thresholds[i]; thresholds[i] = pick() {
				}
			}
			for side := range k.ask {
				answers := slices.Repeat([]uint64{7}, count+1)
				k.ask[side](&values, &thresholds[0], &answers[0], count)
				for i, threshold := range thresholds {
					for row, value := range values {
						want := value >= threshold || side == 0 && value != value
						if got := answers[i]>>row&1 == 1; got != want {
							t.Fatalf("seed %d: kernel %s, side %d: is %g at least %g? %v", seed, k.name, side, value, threshold, got)
						}
					}
				}
				if answers[count] != 7 {
					t.Errorf("kernel %s writes behind %d answers", k.name, count)
				}
			}
		}
	}
}

func TestProcessorsOfThisKindHaveVectorKernels(t *testing.T) {
	var names []string
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	t.Logf("kernels here: %q", names)
	if runtime.GOARCH != "amd64" && len(names) != 1 || names[len(names)-1] != portable {
		t.Errorf("%q", names)
	}
}

func TestKernelIsTheOneAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.ubj")
	if err := os.WriteFile(file, unpack(t, "testdata/fraud.ubj.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, k := range kernels() {
		m, err := LoadWith(file, Options{Kernel: k.name})
		if err != nil {
			t.Fatal(err)
		}
		if of32(m).choice.kernel.name != k.name || !strings.HasSuffix(m.Info().Describe, ", kernel "+k.name) {
			t.Errorf("kernel %s: %s", k.name, m.Info().Describe)
		}
		t.Setenv("AFTERBAY_KERNEL", k.name)
		if m, err := Load(file); err != nil || of32(m).choice.kernel.name != k.name {
			t.Errorf("AFTERBAY_KERNEL=%s: %v, %v", k.name, m, err)
		}
	}
	if m, err := LoadWith(file, Options{Kernel: portable}); err != nil || of32(m).choice.kernel.name != portable {
		t.Errorf("the environment counts more than the option: %v", err)
	}
	t.Setenv("AFTERBAY_KERNEL", "avx1024")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), `kernel "avx1024" does not run here (hint: this processor runs `) {
		t.Errorf("%v", err)
	}
}

// Without time to measure the choice does not depend on the machine's load.
func TestKernelIsChosenByMeasurementWithinItsTime(t *testing.T) {
	m := load(t, "fraud.ubj")
	rows := m.Info().Width() * verifyRows
	if c := choose(of32(m).flat, of32(m).blocks, kernels(), make([]float32, rows), 0); c.kernel.name != kernels()[0].name || c.minimum != minimumUnmeasured {
		t.Errorf("without measurement: %s from %d rows on", c.kernel.name, c.minimum)
	}
	if c := choose(of32(m).flat, nil, kernels(), nil, time.Second); c.kernel.name != kernels()[0].name || c.minimum <= blockRows {
		t.Errorf("without blocks: %s from %d rows on", c.kernel.name, c.minimum)
	}
	if c := chosen(m, kernels(), make([]float32, rows), time.Second); c.minimum < 2 || c.minimum > blockRows {
		t.Errorf("%s from %d rows on", c.kernel.name, c.minimum)
	}
}

// chosen returns a choice of blocks, if there is one: where the machine stands still
// whenever blocks are measured, they are not chosen.
func chosen(m *Model, from []kernel, rows []float32, atMost time.Duration) (c choice) {
	for tries := 0; tries == 0 || c.minimum > blockRows && tries < 20; tries++ {
		c = choose(of32(m).flat, of32(m).blocks, from, rows, atMost)
	}
	return c
}

func TestSlowKernelIsNotChosen(t *testing.T) {
	m := load(t, "fraud.ubj")
	slow := kernel{name: "slow"}
	slow.trees[2] = func(*uint64, *uint32, *float32, *[blockRows]float32, int) {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
		}
	}
	rows := make([]float32, m.Info().Width()*verifyRows)
	if c := chosen(m, []kernel{slow, {name: portable}}, rows, time.Minute); c.kernel.name != portable || c.minimum > blockRows {
		t.Errorf("%s from %d rows on", c.kernel.name, c.minimum)
	}
	if c := choose(of32(m).flat, of32(m).blocks, []kernel{slow}, rows, time.Minute); c.minimum <= blockRows {
		t.Errorf("slower than rows one by one, yet chosen from %d rows on", c.minimum)
	}
}

// What is scored in blocks is told apart by blocks whose leaves are all zero.
func TestFewRowsAreScoredOneByOne(t *testing.T) {
	values := readGolden(t, "testdata/rows.golden.gz").rows.Values
	for _, name := range []string{"fraud.ubj", "classes.ubj"} {
		m := load(t, name)
		damaged := *of32(m).blocks
		damaged.leaves = make([]float32, len(damaged.leaves))
		other, outputs := scoredBy(m, choice{kernels()[0], 9}), m.MarginsPerRow()
		of32(other).blocks = &damaged
		for n, blocks := range map[int]int{1: 0, 8: 0, 9: 9, 64: 64, 72: 64, 73: 73, 133: 128} {
			out := make([]float32, n*outputs)
			other.Margins(model.Rows{Width: 30, Values: values[:n*30]}, out)
			for i, margin := range out {
				if (margin == of32(m).flat.outputs[i%outputs].base) != (i/outputs < blocks) {
					t.Fatalf("%s: of %d rows row %d has margin %g; %d are to be scored in blocks", name, n, i/outputs, margin, blocks)
				}
			}
		}
	}
}

func TestNoKernelAllocates(t *testing.T) {
	for _, name := range []string{"fraud.ubj", "kind-3.2.0-classes-categories.ubj", "small-deep.json", "dart.ubj"} {
		m := load(t, name)
		width := m.Info().Width()
		rows, scores := model.Rows{Width: width, Values: make([]float64, 130*width)}, make([]float32, 130*m.Info().Scores())
		for _, k := range kernels() {
			other := scoredBy(m, choice{k, 1})
			allocations := testing.AllocsPerRun(50, func() {
				if err := other.Predict(context.Background(), rows, scores); err != nil {
					t.Fatal(err)
				}
			})
			if allocations != 0 && !raceEnabled() {
				t.Errorf("%s, kernel %s: %g allocations", name, k.name, allocations)
			}
		}
	}
}

// Which kernel loads first is up to the processor: a wrong one is refused, not
// used.
func TestWrongKernelIsRefusedAtLoad(t *testing.T) {
	e, err := ensembleOf(unpack(t, "testdata/small-squared.json.gz"), "")
	if err != nil {
		t.Fatal(err)
	}
	base := baseOf[float32](e)
	wrong := kernel{name: "wrong"}
	for i := range wrong.trees {
		wrong.trees[i] = func(_ *uint64, _ *uint32, _ *float32, sums *[blockRows]float32, _ int) { sums[63]++ }
	}
	err = verify(e, flatten(e, base), layBlocks(e, base), []kernel{{name: portable}, wrong}, generate(e, verifyRows))
	if err == nil || !strings.Contains(err.Error(), "by kernel wrong has margin") {
		t.Errorf("%v", err)
	}
}

func BenchmarkKernels(b *testing.B) {
	g := readGolden(b, "testdata/rows.golden.gz")
	for _, name := range []string{"fraud", "categories", "classes"} {
		m := load(b, name+".ubj")
		for _, k := range kernels() {
			b.Run(name+"/"+k.name, func(b *testing.B) {
				other, scores := scoredBy(m, choice{k, 1}), make([]float32, blockRows*m.Info().Scores())
				rows := model.Rows{Width: g.rows.Width, Values: g.rows.Values[:blockRows*g.rows.Width]}
				b.ReportAllocs()
				for b.Loop() {
					if err := other.Predict(context.Background(), rows, scores); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*blockRows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
