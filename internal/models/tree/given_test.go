package tree

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// given are models of 50 to 300 trees of simulated payments; testdata/given.py
// packs them. Columns of given.margins.gz are in their order: raw scores of all but
// the last, then predictions of all.
var given = []string{"lgb_num_300.txt", "lgb_cat_300.txt", "lgb_rf_50.txt", "lgb_zeromiss_50.txt", "cat_num_300x6.json", forestGiven}

const forestGiven = "skl_rf_200x8.onnx"

func unpackGiven(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/given-" + name + ".zst")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	data, err := reader.DecodeAll(packed, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}

// goldensOfGiven returns the rows and what its framework says of them, of each.
func goldensOfGiven(t testing.TB) map[string]wideGolden {
	t.Helper()
	all, rows := readWide(t, "testdata/given.margins.gz"), readGolden(t, "testdata/rows.golden.gz").rows
	rows.Values = rows.Values[:len(all.scores[0])*rows.Width]
	goldens := map[string]wideGolden{}
	for i, name := range given {
		g := wideGolden{rows: rows, scores: all.scores[i : i+1]}
		if name != forestGiven {
			g.margins = all.margins[i : i+1]
		} else {
			g.rows.Values = slices.Clone(rows.Values)
			for k, v := range g.rows.Values {
				if v != v {
					g.rows.Values[k] = -999 // what it was trained with
				}
			}
		}
		goldens[name] = g
	}
	return goldens
}

func differenceOfGiven(name string, data []byte, g wideGolden) string {
	m, err := Parse(name, data)
	if err != nil {
		return err.Error()
	}
	if name != forestGiven {
		return wideDifference(m, g, 0)
	}
	// scikit-learn has in float64 what ONNX has in float32, and ONNX two classes.
	for how, by := range withEach(m) {
		scores := make([]float32, 2*g.rows.Len())
		if err := by.Predict(context.Background(), g.rows, scores); err != nil {
			return err.Error()
		}
		for i, want := range g.scores[0] {
			if got := scores[2*i+1]; !(math.Abs(float64(got)-want) < 2e-7) {
				return fmt.Sprintf("%s: row %d has score %v, scikit-learn has %v", how, i, got, want)
			}
		}
	}
	return ""
}

func TestGivenModelsScoreAsTheirFrameworksScoredThem(t *testing.T) {
	for name, g := range goldensOfGiven(t) {
		if got := differenceOfGiven(name, unpackGiven(t, name), g); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		if n := len(g.scores[0]); n != 1000 || g.rows.Len() != n {
			t.Errorf("%s: %d rows were compared", name, n)
		}
	}
}

// A byte of the first leaves of each model is changed, and a bit of what is
// expected.
func TestOneChangedByteOfAGivenModelIsNoticed(t *testing.T) {
	leaves := map[string]string{".txt": "\nleaf_value=", ".json": `"leaf_values":[`, ".onnx": "class_weights"}
	for name, g := range goldensOfGiven(t) {
		data := unpackGiven(t, name)
		mark := leaves[name[strings.LastIndex(name, "."):]]
		at := bytes.Index(data, []byte(mark)) + len(mark) + 4
		noticed := false
		for end := at + 400; at < end && !noticed; at++ { // leaves that no row meets do not show
			damaged := bytes.Clone(data)
			damaged[at] ^= 1
			_, err := Parse(name, damaged) // what is no model any more shows nothing
			noticed = err == nil && differenceOfGiven(name, damaged, g) != ""
		}
		if !noticed {
			t.Errorf("%s: damage to its leaves is not noticed", name)
		}
		column := slices.Concat(g.margins, g.scores)[0]
		before := column[17]
		if column[17] = math.Float64frombits(math.Float64bits(before) ^ 1); name == forestGiven {
			column[17] = before + 1e-6
		}
		if differenceOfGiven(name, data, g) == "" {
			t.Errorf("%s: a changed score passes", name)
		}
		column[17] = before
	}
}
