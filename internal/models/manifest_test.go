package models

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// manifestOf returns the manifest of a copy of a model, with golden vectors as
// they are written.
func manifestOf(t testing.TB, path, golden string) *model.Manifest {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &model.Manifest{
		Name: "model", Version: 1, File: filepath.Join(dir, filepath.Base(path)), Digest: fmt.Sprintf("%x", sha256.Sum256(data)), Golden: filepath.Join(dir, "golden.csv"),
	}
	for i, in := range open(t, path).Info().Inputs {
		name := in.Name
		if name == "" {
			name = "f" + strconv.Itoa(i)
		}
		m.Inputs = append(m.Inputs, model.ManifestInput{Name: name, Type: in.Type})
	}
	for i := range open(t, path).Info().Scores() {
		m.Outputs = append(m.Outputs, model.Output{Name: "score" + strconv.Itoa(i), Size: 1})
	}
	for path, text := range map[string]string{m.File: string(data), m.Golden: golden} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// vectors returns rows of one number and what the model of risk says of them.
func vectors(t testing.TB) string {
	t.Helper()
	values, random := make([]float64, 40), rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = random.NormFloat64() * 300
	}
	return vectorsOf(t, values...)
}

// vectorsOf is vectors of these numbers.
func vectorsOf(t testing.TB, values ...float64) string {
	t.Helper()
	m := open(t, risk).(model.Exact)
	var text strings.Builder
	out := csv.NewWriter(&text)
	header := []string{"f0", "margin", "prediction"}
	if names := m.Info().Names(); names != nil {
		header[0] = names[0]
	}
	write := func(cells ...string) {
		if err := out.Write(cells); err != nil {
			t.Fatal(err)
		}
	}
	write(header...)
	for _, value := range values {
		row := model.Rows{Width: 1, Values: []float64{value}}
		margin, prediction := make([]float64, 1), make([]float32, 1)
		if err := m.ScoreExactly(context.Background(), row, margin); err != nil {
			t.Fatal(err)
		}
		if err := m.Predict(context.Background(), row, prediction); err != nil {
			t.Fatal(err)
		}
		write(strconv.FormatFloat(float64(row.Values[0]), 'g', -1, 32), strconv.FormatFloat(margin[0], 'g', -1, 32), strconv.FormatFloat(float64(prediction[0]), 'g', -1, 32))
	}
	out.Flush()
	return text.String()
}

func TestModelIsUsableOnlyWhereAllOfItsManifestHolds(t *testing.T) {
	golden := vectors(t)
	m, report, err := Verified(t.Context(), manifestOf(t, risk, golden), Opening{})
	if err != nil || m == nil || report.Rows != 40 || report.Exact != "margin" || report.Worst != 0 {
		t.Fatalf("%v, %+v", err, report)
	}
	if _, ok := m.(model.Exact); !ok {
		t.Error("a verified model of trees is not exact")
	}
	lines := strings.Split(golden, "\n")
	cells := strings.Split(lines[7], ",")
	margin, err := strconv.ParseFloat(cells[1], 32)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(column int, value string) string {
		changed := strings.Split(golden, "\n")
		c := strings.Split(changed[7], ",")
		c[column] = value
		changed[7] = strings.Join(c, ",")
		return strings.Join(changed, "\n")
	}
	for name, change := range map[string]func(m *model.Manifest){
		"row 7 of golden.csv: margin is": func(m *model.Manifest) {
			next := math.Nextafter32(float32(margin), 100)
			rewrite(t, m.Golden, flip(1, strconv.FormatFloat(float64(next), 'g', -1, 32)))
		},
		"row 7 of golden.csv: prediction is": func(m *model.Manifest) { rewrite(t, m.Golden, flip(2, "0.9999")) },
		"column prediction is empty":         func(m *model.Manifest) { rewrite(t, m.Golden, flip(2, "")) },
		"is 1e+40: a model of trees takes":   func(m *model.Manifest) { rewrite(t, m.Golden, flip(0, "1e40")) },
		"no column has the expected output": func(m *model.Manifest) {
			rewrite(t, m.Golden, strings.NewReplacer("margin", "a", "prediction", "b").Replace(golden))
		},
		"golden.csv: no rows": func(m *model.Manifest) { rewrite(t, m.Golden, lines[0]+"\n") },
		"has sha256": func(m *model.Manifest) {
			data, err := os.ReadFile(m.File)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			rewrite(t, m.File, string(data))
		},
		"is not a version":          func(m *model.Manifest) { m.Version = 0 },
		"the file is of kind":       func(m *model.Manifest) { m.Kind = "text" },
		"the model has 1 outputs":   func(m *model.Manifest) { m.Outputs = nil },
		"0 are named":               func(m *model.Manifest) { m.Inputs = nil },
		"in the file number":        func(m *model.Manifest) { m.Inputs[0].Type = model.String },
		"has the shape [2]":         func(m *model.Manifest) { m.Inputs[0].Shape = []int{2} },
		"category \"a\" stands":     func(m *model.Manifest) { m.Inputs[0].Categories = []string{"a", "a"} },
		"is above limits.rows, 100": func(m *model.Manifest) { m.Batch.Size, m.Limits.Rows = 200, 100 },
		"no such file":              func(m *model.Manifest) { m.File += "x" },
	} {
		said := manifestOf(t, risk, golden)
		change(said)
		m, _, err := Verified(t.Context(), said, Opening{})
		if err == nil || m != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTextsOfGoldenVectorsAreExactTo12Digits(t *testing.T) {
	golden := "text,capitals,score\nbad,0.5,2.25\n\"good, bad\",0,%s\n"
	for expected, right := range map[string]bool{"0.75": true, "0.7500000000001": true, "0.75000000001": false} {
		_, report, err := Verified(t.Context(), manifestOf(t, tone, fmt.Sprintf(golden, expected)), Opening{})
		if (err == nil) != right {
			t.Errorf("%s: %v, %+v", expected, err, report)
		}
	}
}

func TestCategoriesOfManifestAreThoseOfTheModel(t *testing.T) {
	said := manifestOf(t, risk, strings.Replace(vectorsOf(t, 0, 1, 1), "\n1,", "\nhigh,", 1))
	said.Inputs[0].Categories = []string{"low", "high"}
	said.Batch = model.Policy{Size: 7, ByLength: true}
	m, _, err := Verified(t.Context(), said, Opening{})
	if err != nil {
		t.Fatal(err)
	}
	if info := m.Info(); info.Inputs[0].Categories[1] != "high" || info.Batch.Size != 7 || !info.Batch.ByLength {
		t.Errorf("%+v", info)
	}
}

// mixing is a model whose scores depend on what else is in the batch.
type mixing struct {
	by func(rows model.Rows, row int) float32
}

func (mixing) Info() model.Info {
	return model.Info{Inputs: []model.Input{{Type: model.String}}, Outputs: []model.Output{{Size: 1}}}
}
func (mixing) Check([]float64, [][]byte) error { return nil }

func (m mixing) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		scores[i] = float32(len(rows.Bytes[i])) + m.by(rows, i)
	}
	return nil
}

func TestModelsThatMixRowsAreFound(t *testing.T) {
	rows := model.Rows{BytesWidth: 1}
	for i := range 20 {
		rows.Append(nil, [][]byte{make([]byte, i)})
	}
	for name, by := range map[string]func(rows model.Rows, row int) float32{
		"":         func(model.Rows, int) float32 { return 0 },
		"position": func(_ model.Rows, row int) float32 { return float32(row) },
		"size":     func(rows model.Rows, _ int) float32 { return float32(rows.Len()) },
		"neighbour": func(rows model.Rows, row int) float32 {
			return float32(len(rows.Bytes[max(row-1, 0)])) - float32(len(rows.Bytes[row]))
		},
		"padding": func(rows model.Rows, _ int) float32 { return float32(len(rows.Bytes[longestOf(rows)])) * 1e-4 },
	} {
		if _, err := invariant(t.Context(), mixing{by}, rows, 0); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
