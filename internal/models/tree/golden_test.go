package tree

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/model"
)

// golden is rows and what XGBoost says of them; testdata/golden.py writes it.
type golden struct {
	rows                 model.Rows
	margins, predictions [][]float32 // of each output
}

func unpack(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	data := unpack(t, path)
	word := func(i int) int { return int(binary.LittleEndian.Uint32(data[4*i:])) }
	rows, width, outputs := word(0), word(1), word(2)
	planes := data[12:]
	count := rows*width + outputs*rows*2
	if len(planes) != 4*count {
		t.Fatalf("%s: %d bytes for %d values", path, len(planes), count)
	}
	value := func(i int) float32 {
		bits := uint32(planes[i]) | uint32(planes[count+i])<<8 | uint32(planes[2*count+i])<<16 | uint32(planes[3*count+i])<<24
		return math.Float32frombits(bits)
	}
	g := golden{rows: model.Rows{Width: width, Values: make([]float64, rows*width)}}
	for i := range rows {
		for j := range width {
			g.rows.Values[i*width+j] = float64(value(j*rows + i))
		}
	}
	for o := range outputs {
		at := rows*width + o*rows*2
		margins, predictions := make([]float32, rows), make([]float32, rows)
		for i := range rows {
			margins[i], predictions[i] = value(at+i), value(at+rows+i)
		}
		g.margins, g.predictions = append(g.margins, margins), append(g.predictions, predictions)
	}
	return g
}

// load parses testdata/<name>.json.gz or .ubj.gz.
func load(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Parse(name, unpack(t, filepath.Join("testdata", name+".gz")))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// outputs returns what g says of some of its outputs.
func (g golden) outputs(from, to int) golden {
	return golden{g.rows, g.margins[from:to], g.predictions[from:to]}
}

// difference returns the first way in which m disagrees with XGBoost, or "":
// with its rows scored one by one, and in blocks by each kernel.
func difference(m *Model, g golden) string {
	alone := choice{minimum: blockRows + 1}
	if got := differenceOf(scoredBy(m, alone), g); got != "" || of32(m).blocks == nil {
		return got
	}
	for _, k := range kernels() {
		if got := differenceOf(scoredBy(m, choice{k, 1}), g); got != "" {
			return "kernel " + k.name + ": " + got
		}
	}
	return ""
}

// scoredBy returns m with another choice of kernel.
func scoredBy(m *Model, c choice) *Model {
	f := of32(m)
	other := &forest[float32]{flat: f.flat, blocks: f.blocks, choice: c, after: f.after, link: f.link}
	other.scratches.New = func() any { return other.scratch() }
	scored := *m
	scored.forest = other
	return &scored
}

// of32 returns the forest of a model that adds up in float32.
func of32(m *Model) *forest[float32] { return m.forest.(*forest[float32]) }

func differenceOf(m *Model, g golden) string {
	rows, count := g.rows, g.rows.Len()
	if m.MarginsPerRow() != len(g.margins) {
		return fmt.Sprintf("%d margins a row, XGBoost has %d", m.MarginsPerRow(), len(g.margins))
	}
	for i := range count {
		if err := m.Check(rows.Values[i*rows.Width:(i+1)*rows.Width], nil); err != nil {
			return fmt.Sprintf("row %d is refused: %v", i, err)
		}
	}
	batches := []int{1, 67, count}
	if of32(m).choice.minimum == 1 {
		batches = []int{5, 64, 67}
	}
	for _, batch := range batches {
		if batch < 64 && count > 1000 {
			continue
		}
		margins, scores := make([]float32, batch*m.MarginsPerRow()), make([]float32, batch*m.Info().Scores())
		for first := 0; first < count; first += batch {
			end := min(first+batch, count)
			part := model.Rows{Width: rows.Width, Values: rows.Values[first*rows.Width : end*rows.Width]}
			m.Margins(part, margins)
			if err := m.Predict(context.Background(), part, scores); err != nil {
				return err.Error()
			}
			for o := range g.margins {
				for i := first; i < end; i++ {
					got, want := margins[(i-first)*m.MarginsPerRow()+o], g.margins[o][i]
					if math.Float32bits(got) != math.Float32bits(want) {
						return fmt.Sprintf("batch of %d: row %d has margin %g for output %d, XGBoost has %g", batch, i, got, o, want)
					}
					got, want = scores[(i-first)*m.Info().Scores()+min(o, m.Info().Scores()-1)], g.predictions[o][i]
					if math.Float32bits(got) != math.Float32bits(want) {
						return fmt.Sprintf("batch of %d: row %d has score %g for output %d, XGBoost has %g", batch, i, got, o, want)
					}
				}
			}
		}
	}
	return ""
}

func TestTenThousandRowsScoreAsXGBoostScoresThem(t *testing.T) {
	g := readGolden(t, "testdata/rows.golden.gz")
	for i, name := range []string{"fraud", "amount"} {
		for _, kind := range []string{".json", ".ubj"} {
			m := load(t, name+kind)
			if got := difference(m, g.outputs(i, i+1)); got != "" {
				t.Errorf("%s%s: %s", name, kind, got)
			}
		}
	}
}

func TestTwoThousandRowsOfEachKindScoreAsXGBoostScoresThem(t *testing.T) {
	g, from := readGolden(t, "testdata/rows-kinds.golden.gz"), 0
	for _, name := range []string{"categories", "dart", "classes"} {
		outputs := 0
		for _, kind := range []string{".json", ".ubj"} {
			m := load(t, name+kind)
			outputs = m.MarginsPerRow()
			if got := difference(m, g.outputs(from, from+outputs)); got != "" {
				t.Errorf("%s%s: %s", name, kind, got)
			}
		}
		from += outputs
	}
	if from != len(g.margins) {
		t.Errorf("%d of %d outputs were compared", from, len(g.margins))
	}
}

// Edge rows lie at thresholds and beside them, at zeros of both signs,
// denormals and extremes, or are missing. The models cover trees of one leaf,
// of depth 1 and 10, uneven, pruned and parallel ones, one and 5,000 of them,
// categorical splits of one and of several categories, dropped trees, several
// outputs, leaves that are vectors, each objective, and files of XGBoost 1.0,
// 1.3, 1.7, 2.1, 3.0, 3.2 and 3.4. Values of categorical inputs are listed
// categories and beside them, negative, fractional, unknown and too large.
func TestEdgeRowsScoreAsXGBoostScoresThem(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.golden.gz")
	if err != nil {
		t.Fatal(err)
	}
	models := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".golden.gz")
		if strings.HasPrefix(name, "rows") {
			continue
		}
		g := readGolden(t, path)
		for _, kind := range []string{".json", ".ubj"} {
			file := strings.TrimSuffix(name, "-edges") + kind
			if _, err := os.Stat("testdata/" + file + ".gz"); err != nil {
				continue
			}
			models++
			if got := difference(load(t, file), g); got != "" {
				t.Errorf("%s: %s", file, got)
			}
		}
	}
	if models != 100 {
		t.Errorf("%d models were compared, 100 are committed", models)
	}
}

func TestOneFlippedBitOfAGoldenIsNoticed(t *testing.T) {
	m := load(t, "small-squared.json")
	g := readGolden(t, "testdata/small-squared.golden.gz")
	if got := difference(m, g); got != "" {
		t.Fatal(got)
	}
	for _, list := range [][]float32{g.margins[0], g.predictions[0]} {
		list[17] = math.Float32frombits(math.Float32bits(list[17]) ^ 1)
		if difference(m, g) == "" {
			t.Error("a golden with a flipped bit passes")
		}
		list[17] = math.Float32frombits(math.Float32bits(list[17]) ^ 1)
	}
}

func TestOneFlippedByteOfAModelIsNoticed(t *testing.T) {
	const name = "kind-1.7.6-categories-partition"
	data, g := unpack(t, "testdata/"+name+".ubj.gz"), readGolden(t, "testdata/"+name+".golden.gz")
	if m, err := Parse(name, data); err != nil || difference(m, g) != "" {
		t.Fatalf("%v", err)
	}
	// Of the first tree the last leaves, and the first categories of a set.
	for _, column := range []string{"split_conditions", "categories"} {
		_, rest, _ := bytes.Cut(data, append([]byte{0, 0, 0, 0, 0, 0, 0, byte(len(column))}, column+"[$"...))
		first := len(data) - len(rest) + len("l#L") + 8
		places, byteOf, bit := []int{0, 1, 2}, 3, byte(1) // the category next to it
		if column == "split_conditions" {
			count := int(binary.BigEndian.Uint64(data[first-8:]))
			places, byteOf, bit = []int{count - 1, count - 2}, 2, 1 // a 32,768th of the score
		}
		for _, i := range places {
			damaged := slices.Clone(data)
			damaged[first+4*i+byteOf] ^= bit
			if m, err := Parse(name, damaged); err == nil && difference(m, g) == "" {
				t.Errorf("damage to %s[%d] is not noticed", column, i)
			}
		}
	}
}

// Shows that the rows and the comparison have teeth: no leaf or link that a row
// meets can change without a red test.
func TestDamageToAnyNodeIsNoticed(t *testing.T) {
	m := load(t, "small-squared.json")
	g := readGolden(t, "testdata/small-squared.golden.gz")
	tried := 0
	for i, reached := range reachedNodes(of32(m).flat, g.rows) {
		if !reached {
			continue
		}
		damaged := *of32(m).flat
		damaged.nodes, damaged.leaves = slices.Clone(of32(m).flat.nodes), slices.Clone(of32(m).flat.leaves)
		if damaged.nodes[i].step == 0 {
			damaged.leaves[i] = math.Float32frombits(math.Float32bits(damaged.leaves[i]) ^ 1<<20)
		} else {
			damaged.nodes[i] = node{below: math.MaxUint32, input: uint16(2 * damaged.inputs)}
		}
		other := scoredBy(m, choice{minimum: blockRows + 1})
		of32(other).flat = &damaged
		if differenceOf(other, g) == "" {
			t.Errorf("damage to node %d is not noticed", i)
		}
		tried++
	}
	if tried < 100 {
		t.Errorf("only %d damages were tried", tried)
	}
}

func reachedNodes(f *flat[float32], rows model.Rows) []bool {
	reached := make([]bool, len(f.nodes))
	slots := f.scratch()
	for i := range rows.Len() {
		f.fill(slots, rounded(rows.Values[i*rows.Width:(i+1)*rows.Width]))
		for _, tree := range f.trees {
			at := uint64(tree.first)
			reached[at] = true
			for range tree.depth {
				at = f.nodes[at].next(slots, at)
				reached[at] = true
			}
		}
	}
	return reached
}

// XGBoost computes the base margin in float32 with the C library's logarithm
// and the prediction with its exponential: links.gz holds 456 of the first and
// 4,052 of the second.
func TestLinksAreXGBoosts(t *testing.T) {
	data := unpack(t, "testdata/links.gz")
	bases, margins := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:]))
	values := make([]float32, (len(data)-8)/4)
	if err := binary.Read(bytes.NewReader(data[8:]), binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	if len(values) != 2*(bases+margins) || bases < 400 || margins < 4000 {
		t.Fatalf("%d values for %d bases and %d margins", len(values), bases, margins)
	}
	for i, base := range values[:bases] {
		if got, want := baseMargin(base), values[bases+i]; got != want {
			t.Errorf("base_score %g has margin %g, XGBoost has %g", base, got, want)
		}
	}
	for i, margin := range values[2*bases : 2*bases+margins] {
		got, want := probability(margin), values[2*bases+margins+i]
		if got != want {
			t.Errorf("margin %g has probability %g, XGBoost has %g", margin, got, want)
		}
	}
}

// Trains random models with the XGBoost of the interpreter that
// AFTERBAY_PYTHON names, and compares.
func TestRandomModelsScoreAsInstalledXGBoostScoresThem(t *testing.T) {
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has xgboost 3.2.0")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has xgboost 3.2.0")
	}
	seed := time.Now().UnixNano() % 1_000_000
	if text := os.Getenv("AFTERBAY_SEED"); text != "" {
		seed, _ = strconv.ParseInt(text, 10, 64)
	}
	t.Logf("seed %d; AFTERBAY_SEED=%d runs it again", seed, seed)
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), python, "testdata/golden.py", "live", strconv.FormatInt(seed, 10), folder)
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.golden.gz"))
	for _, path := range paths {
		g := readGolden(t, path)
		files, _ := filepath.Glob(strings.TrimSuffix(path, "golden.gz") + "[ju]*.gz")
		m, err := Parse(filepath.Base(path), unpack(t, files[0]))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := difference(m, g); got != "" {
			t.Errorf("seed %d, %s, %s: %s", seed, filepath.Base(files[0]), m.Info().Describe, got)
		}
	}
	if len(paths) < 50 {
		t.Errorf("only %d models were compared", len(paths))
	}
}
