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
	margins, predictions [][]float32 // per model
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
	rows, width, models := word(0), word(1), word(2)
	planes := data[12:]
	count := rows*width + models*rows*2
	if len(planes) != 4*count {
		t.Fatalf("%s: %d bytes for %d values", path, len(planes), count)
	}
	value := func(i int) float32 {
		bits := uint32(planes[i]) | uint32(planes[count+i])<<8 | uint32(planes[2*count+i])<<16 | uint32(planes[3*count+i])<<24
		return math.Float32frombits(bits)
	}
	g := golden{rows: model.Rows{Width: width, Values: make([]float32, rows*width)}}
	for i := range rows {
		for j := range width {
			g.rows.Values[i*width+j] = value(j*rows + i)
		}
	}
	for m := range models {
		at := rows*width + m*rows*2
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

// ulps is how many float32 lie between two finite numbers.
func ulps(a, b float32) int64 {
	return max(int64(key(a))-int64(key(b)), int64(key(b))-int64(key(a)))
}

// difference returns the first way in which m disagrees with XGBoost, or "".
func difference(m *Model, rows model.Rows, margins, predictions []float32) string {
	for i := range margins {
		if err := m.Check(rows.Values[i*rows.Width : (i+1)*rows.Width]); err != nil {
			return fmt.Sprintf("row %d is refused: %v", i, err)
		}
	}
	for _, batch := range []int{1, 5, 8, 64, 67, len(margins)} {
		if batch < 64 && len(margins) > 2000 {
			continue
		}
		out := make([]float32, batch)
		for first := 0; first < len(margins); first += batch {
			end := min(first+batch, len(margins))
			part := model.Rows{Width: rows.Width, Values: rows.Values[first*rows.Width : end*rows.Width]}
			m.Margins(part, out)
			for i := first; i < end; i++ {
				if math.Float32bits(out[i-first]) != math.Float32bits(margins[i]) {
					return fmt.Sprintf("batch of %d: row %d has margin %g, XGBoost has %g", batch, i, out[i-first], margins[i])
				}
			}
			if err := m.Predict(context.Background(), part, out); err != nil {
				return err.Error()
			}
			for i := first; i < end; i++ {
				if apart := ulps(out[i-first], predictions[i]); apart > 2 || apart != 0 && !m.probability {
					return fmt.Sprintf("batch of %d: row %d has score %g, XGBoost has %g", batch, i, out[i-first], predictions[i])
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
			if got := difference(m, g.rows, g.margins[i], g.predictions[i]); got != "" {
				t.Errorf("%s%s: %s", name, kind, got)
			}
		}
	}
}

// Edge rows lie at thresholds and beside them, at zeros of both signs,
// denormals and extremes, or are missing. The models cover trees of one leaf,
// of depth 1 and 10, uneven, pruned and parallel ones, each objective, and
// files of XGBoost 1.0, 1.3, 1.7, 2.1 and 3.0.
func TestEdgeRowsScoreAsXGBoostScoresThem(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.golden.gz")
	if err != nil {
		t.Fatal(err)
	}
	models := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".golden.gz")
		if name == "rows" {
			continue
		}
		g := readGolden(t, path)
		for _, kind := range []string{".json", ".ubj"} {
			file := strings.TrimSuffix(name, "-edges") + kind
			if _, err := os.Stat("testdata/" + file + ".gz"); err != nil {
				continue
			}
			models++
			if got := difference(load(t, file), g.rows, g.margins[0], g.predictions[0]); got != "" {
				t.Errorf("%s: %s", file, got)
			}
		}
	}
	if models != 27 {
		t.Errorf("%d models were compared, 27 are committed", models)
	}
}

func TestOneFlippedBitOfAGoldenIsNoticed(t *testing.T) {
	m := load(t, "small-squared.json")
	g := readGolden(t, "testdata/small-squared.golden.gz")
	if got := difference(m, g.rows, g.margins[0], g.predictions[0]); got != "" {
		t.Fatal(got)
	}
	for _, list := range [][]float32{g.margins[0], g.predictions[0]} {
		list[17] = math.Float32frombits(math.Float32bits(list[17]) ^ 1)
		if difference(m, g.rows, g.margins[0], g.predictions[0]) == "" {
			t.Error("a golden with a flipped bit passes")
		}
		list[17] = math.Float32frombits(math.Float32bits(list[17]) ^ 1)
	}
}

// Shows that the rows and the comparison have teeth: no leaf or link that a row
// meets can change without a red test.
func TestDamageToAnyNodeIsNoticed(t *testing.T) {
	m := load(t, "small-squared.json")
	g := readGolden(t, "testdata/small-squared.golden.gz")
	tried := 0
	for i, reached := range reachedNodes(m.flat, g.rows) {
		if !reached {
			continue
		}
		damaged := *m.flat
		damaged.nodes, damaged.leaves = slices.Clone(m.flat.nodes), slices.Clone(m.flat.leaves)
		if damaged.nodes[i].step == 0 {
			damaged.leaves[i] = math.Float32frombits(math.Float32bits(damaged.leaves[i]) ^ 1<<20)
		} else {
			damaged.nodes[i] = node{threshold: math.MaxInt32, input: uint16(2 * damaged.inputs)}
		}
		other := &Model{flat: &damaged, info: m.info}
		other.scratches.New = func() any { return damaged.scratch() }
		if difference(other, g.rows, g.margins[0], g.predictions[0]) == "" {
			t.Errorf("damage to node %d is not noticed", i)
		}
		tried++
	}
	if tried < 100 {
		t.Errorf("only %d damages were tried", tried)
	}
}

func reachedNodes(f *flat, rows model.Rows) []bool {
	reached := make([]bool, len(f.nodes))
	slots := make([]int32, f.stride())
	for i := range rows.Len() {
		f.fill(slots, rows.Values[i*rows.Width:(i+1)*rows.Width])
		for _, tree := range f.trees {
			at := tree.first
			reached[at] = true
			for range tree.depth {
				at += f.nodes[at].next(slots)
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
	exact := 0
	for i, margin := range values[2*bases : 2*bases+margins] {
		got, want := probability(margin), values[2*bases+margins+i]
		if ulps(got, want) > 2 {
			t.Errorf("margin %g has probability %g, XGBoost has %g", margin, got, want)
		}
		if got == want {
			exact++
		}
	}
	t.Logf("%d of %d probabilities are equal, the others within 2 units in the last place", exact, margins)
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
		if got := difference(m, g.rows, g.margins[0], g.predictions[0]); got != "" {
			t.Errorf("seed %d, %s, %s: %s", seed, filepath.Base(files[0]), m.Info().Describe, got)
		}
	}
	if len(paths) < 20 {
		t.Errorf("only %d models were compared", len(paths))
	}
}
