package tree

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
)

// wideGolden is rows and what a framework says of them, in float64;
// testdata/frameworks.py writes it.
type wideGolden struct {
	rows            model.Rows
	margins, scores [][]float64 // of each column
}

func readWide(t testing.TB, path string) wideGolden {
	t.Helper()
	data := unpack(t, path)
	word := func(i int) int { return int(binary.LittleEndian.Uint32(data[4*i:])) }
	rows, width := word(0), word(1)
	planes := data[16:]
	count := rows * (width + word(2) + word(3))
	if len(planes) != 8*count {
		t.Fatalf("%s: %d bytes for %d values", path, len(planes), count)
	}
	column := func(c int) []float64 {
		list := make([]float64, rows)
		for i := range list {
			var bytes [8]byte
			for p := range bytes {
				bytes[p] = planes[p*count+c*rows+i]
			}
			list[i] = math.Float64frombits(binary.LittleEndian.Uint64(bytes[:]))
		}
		return list
	}
	g := wideGolden{rows: model.Rows{Width: width, Values: make([]float64, rows*width)}}
	for j := range width {
		for i, value := range column(j) {
			g.rows.Values[i*width+j] = value
		}
	}
	for c := range word(2) {
		g.margins = append(g.margins, column(width+c))
	}
	for c := range word(3) {
		g.scores = append(g.scores, column(width+word(2)+c))
	}
	return g
}

// withEach returns m with each way to score: row by row, and in blocks by each
// kernel.
func withEach(m *Model) map[string]*Model {
	ways := map[string]*Model{}
	add := func(name string, c choice) {
		other := &Model{}
		*other = *m
		switch f := m.forest.(type) {
		case *forest[float32]:
			g := &forest[float32]{flat: f.flat, blocks: f.blocks, scales: f.scales, choice: c, after: f.after, link: f.link}
			g.scratches.New = func() any { return g.scratch() }
			other.forest = g
		case *forest[float64]:
			g := &forest[float64]{flat: f.flat, blocks: f.blocks, scales: f.scales, choice: c, after: f.after, link: f.link}
			g.scratches.New = func() any { return g.scratch() }
			other.forest = g
		}
		ways[name] = other
	}
	for _, k := range kernels() {
		add("alone by "+k.name, choice{k, blockRows + 1})
		add("blocks by "+k.name, choice{k, 1})
	}
	return ways
}

// wideDifference returns the first way in which m disagrees with its framework,
// or "": margins in any bit, and scores by more than ulps float32.
func wideDifference(m *Model, g wideGolden, ulps int) string {
	for how, by := range withEach(m) {
		if got := wideDifferenceOf(by, g, ulps); got != "" {
			return how + ": " + got
		}
	}
	return ""
}

func wideDifferenceOf(m *Model, g wideGolden, ulps int) string {
	count, width, outputs := g.rows.Len(), m.MarginsPerRow(), m.Info().Scores()
	if outputs != len(g.scores) || len(g.margins) > 0 && width != len(g.margins) {
		return fmt.Sprintf("%d margins and %d scores a row, the framework has %d and %d", width, outputs, len(g.margins), len(g.scores))
	}
	for i := range count {
		if err := m.Check(g.rows.Values[i*g.rows.Width:(i+1)*g.rows.Width], nil); err != nil {
			return fmt.Sprintf("row %d is refused: %v", i, err)
		}
	}
	margins, scores := make([]float64, count*width), make([]float32, count*outputs)
	m.Margins64(g.rows, margins)
	if err := m.Predict(context.Background(), g.rows, scores); err != nil {
		return err.Error()
	}
	for o, list := range g.margins {
		for i, want := range list {
			if got := margins[i*width+o]; got != want && (got == got || want == want) {
				return fmt.Sprintf("row %d has margin %v for output %d, the framework has %v", i, got, o, want)
			}
		}
	}
	for o, list := range g.scores {
		for i, want := range list {
			if got := scores[i*outputs+o]; apart(got, float32(want)) > ulps && !(ulps > 1 && math.Abs(float64(got)-want) < 0x1p-22) {
				return fmt.Sprintf("row %d has score %v for output %d, the framework has %v", i, got, o, float32(want))
			}
		}
	}
	return ""
}

// apart is how many float32 lie between two values.
func apart(a, b float32) int {
	if a != a && b != b {
		return 0
	}
	if a != a || b != b {
		return math.MaxInt
	}
	distance := int(key(a)) - int(key(b))
	return max(distance, -distance)
}

// ulpsOf is how far apart the scores of a model may be. Those of an IsolationForest
// are the difference of a power and a number near it, so that its ulps are many;
// and ONNX Runtime takes logarithms of vectors by an approximation of its own.
func ulpsOf(name string) int {
	switch {
	case strings.Contains(name, "isolation"):
		return 64
	case strings.Contains(name, "onnx"):
		return 0 // the exponential is that of the C library
	}
	return 1
}

// compareWithFrameworks compares the models of a folder with their goldens and
// returns how many there are of each kind.
func compareWithFrameworks(t *testing.T, folder string) map[string]int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.wide.gz"))
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]int{}
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".wide.gz")
		files, _ := filepath.Glob(name + ".[tjo]*.gz")
		if len(files) != 1 {
			t.Fatalf("%s: models %q", path, files)
		}
		m, err := Parse(filepath.Base(files[0]), unpack(t, files[0]))
		if err != nil {
			t.Error(err)
			continue
		}
		models[m.Info().Kind]++
		if got := wideDifference(m, readWide(t, path), ulpsOf(name)); got != "" {
			t.Errorf("%s, %s: %s", filepath.Base(files[0]), m.Info().Describe, got)
		}
	}
	return models
}

func TestEdgeRowsScoreAsTheirFrameworksScoreThem(t *testing.T) {
	models := compareWithFrameworks(t, "testdata")
	for kind, want := range map[string]int{"lightgbm": 28, "catboost": 11, "onnx-trees": 25} {
		if models[kind] != want {
			t.Errorf("%d models of kind %s were compared, %d are committed", models[kind], kind, want)
		}
	}
}

func TestOneFlippedBitOfAFrameworksGoldenIsNoticed(t *testing.T) {
	for _, name := range []string{"lightgbm-binary.txt", "catboost-classes.json", "onnx-forest-classes.onnx", "onnx-boosting.onnx"} {
		path := "testdata/" + name + ".gz"
		m, err := Parse(name, unpack(t, path))
		if err != nil {
			t.Fatal(err)
		}
		g := readWide(t, strings.TrimSuffix(path, filepath.Ext(name)+".gz")+".wide.gz")
		if got := wideDifference(m, g, ulpsOf(name)); got != "" {
			t.Fatal(got)
		}
		for _, list := range g.margins {
			list[17] = math.Float64frombits(math.Float64bits(list[17]) ^ 1)
			if wideDifference(m, g, ulpsOf(name)) == "" {
				t.Errorf("%s: a margin with a flipped bit passes", name)
			}
			list[17] = math.Float64frombits(math.Float64bits(list[17]) ^ 1)
		}
		for _, list := range g.scores {
			list[17] = float64(math.Float32frombits(math.Float32bits(float32(list[17])) ^ 2))
			if wideDifference(m, g, ulpsOf(name)) == "" {
				t.Errorf("%s: a score with a flipped bit passes", name)
			}
			break
		}
	}
}

// A digit of a threshold or of a leaf's score is changed, or a bit of a set.
func TestOneChangedDigitOfAModelIsNoticed(t *testing.T) {
	for name, changes := range map[string][][2]string{
		"lightgbm-categories.txt": {{"\nthreshold=", "1"}, {"\nleaf_value=", "1"}, {"\ncat_threshold=", "1"}, {"\ndecision_type=", "1"}},
		"catboost-binary.json":    {{`"border":`, "1"}, {`"leaf_values":`, "1"}, {`"scale_and_bias":`, "1"}},
	} {
		data := unpack(t, "testdata/"+name+".gz")
		g := readWide(t, "testdata/"+strings.TrimSuffix(name, filepath.Ext(name))+".wide.gz")
		for _, change := range changes {
			start := bytes.Index(data, []byte(change[0])) + len(change[0])
			noticed := false
			for at := start; at < start+200 && !noticed; at++ {
				if data[at] < '0' || data[at] > '8' {
					continue
				}
				damaged := bytes.Clone(data)
				damaged[at]++
				m, err := Parse(name, damaged)
				noticed = err != nil || wideDifference(m, g, 1) != ""
			}
			if start < 20 || !noticed {
				t.Errorf("%s: no damage to %q is noticed", name, change[0])
			}
		}
	}
}

// Trains random models with the frameworks of the interpreter that
// AFTERBAY_PYTHON names, and compares.
func TestRandomModelsScoreAsInstalledFrameworksScoreThem(t *testing.T) {
	const needs = "lightgbm 4.7.0, catboost 1.2.10, scikit-learn 1.9.1, skl2onnx 1.20.0 and onnxruntime 1.31.1"
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has " + needs)
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has " + needs)
	}
	seed := time.Now().UnixNano() % 1_000_000
	if text := os.Getenv("AFTERBAY_SEED"); text != "" {
		seed, _ = strconv.ParseInt(text, 10, 64)
	}
	t.Logf("seed %d; AFTERBAY_SEED=%d runs it again", seed, seed)
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), python, "testdata/frameworks.py", "live", strconv.FormatInt(seed, 10), folder)
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	models := compareWithFrameworks(t, folder)
	if models["lightgbm"] < 26 || models["catboost"] < 11 || models["onnx-trees"] < 23 {
		t.Errorf("seed %d: only %v models were compared", seed, models)
	}
}

// TestNumbersOfAPandasFrameAreItsCategories gives a model of LightGBM what its frame
// held, the categories 10, 20 and 35, and compares with what LightGBM made of the frame.
func TestNumbersOfAPandasFrameAreItsCategories(t *testing.T) {
	m, err := Parse("lightgbm-numbers.txt", unpack(t, "testdata/lightgbm-numbers.txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	codes := category.NewCodes(m.Info().Inputs[0].Categories)
	g := readWide(t, "testdata/lightgbm-numbers.frame.gz")
	for i := range g.rows.Len() {
		value := &g.rows.Values[i*g.rows.Width]
		if *value, err = codes.Number(*value); err != nil {
			t.Fatal(err)
		}
	}
	if got := wideDifference(m, g, 1); got != "" {
		t.Error(got)
	}
	for _, other := range []float64{0, 1, 2, 15, 10.5, -10} {
		if code, err := codes.Number(other); err == nil {
			t.Errorf("%v is not a category of the frame, and is taken as the code %v", other, code)
		}
	}
}
