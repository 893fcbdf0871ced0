package models

import (
	"context"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

const (
	goldenMax = 10_000 // most rows
	// predictionTolerance is the largest accepted difference from an expected prediction; above 1
	// it is relative. Exact scores have their own tolerance.
	predictionTolerance = 1e-5
	aloneMax            = 64 // rows that a model outside the process scores one by one
)

// expectation is a column of the golden vectors with expected scores.
type expectation struct {
	name   string
	exact  bool
	at     int // index among the row's scores
	values []float64
}

// golden compares the scores of the golden vectors.
func (v *verifier) golden(ctx context.Context, m model.Model) {
	if v.manifest.Golden == "" {
		return
	}
	rows, expected, err := readGolden(v.manifest.Golden, m)
	if err != nil {
		v.fail("golden", err, "`afterbay model add` writes such a file", "%v", err)
		return
	}
	v.report.Rows = rows.Len()
	tolerance, hint := 0.0, "the model cannot share calls: this should not happen, please report it"
	if v.outside {
		tolerance, hint = predictionTolerance, "a row must not change the score of another row: remove batch.size for a model of kind onnx; for other kinds, correct the program or server"
	}
	scores, err := invariant(ctx, m, rows, tolerance)
	if err != nil {
		v.fail("golden", err, hint, "%v", err)
		return
	}
	for _, e := range expected {
		v.compare(m, e, scores)
		if e.exact {
			v.report.Exact = exactnessOf(m).Name
		}
	}
}

// compare reports the first row with a score that differs from the expected one.
func (v *verifier) compare(m model.Model, e expectation, scores scored) {
	exactness := exactnessOf(m)
	for row, said := range e.values {
		got, want, tolerance := 0.0, said, 0.0
		if e.exact {
			got, tolerance = scores.exact[row*exactness.Columns+e.at], exactness.Tolerance
			if exactness.Bits == 32 {
				want = float64(float32(want))
			}
		} else {
			want = float64(float32(want))
			got = float64(scores.predictions[row*m.Info().Scores()+e.at])
			tolerance = predictionTolerance * max(1, math.Abs(want))
		}
		difference := math.Abs(got - want)
		v.report.Worst = max(v.report.Worst, difference)
		if got != want && !(difference <= tolerance) {
			v.fail("golden", nil, "another file, version or order of inputs gives other scores: train and export again, or write the vectors of this file",
				"row %d of %s: %s is %v, expected %v", row+1, filepath.Base(v.manifest.Golden), e.name, got, said)
			return
		}
	}
}

// readGolden reads rows, and the columns with expected scores.
func readGolden(path string, m model.Model) (model.Rows, []expectation, error) {
	info := m.Info()
	rows := model.Rows{Width: info.Width(), BytesWidth: info.BytesWidth()}
	file, err := os.Open(path)
	if err != nil {
		return rows, nil, err
	}
	defer file.Close()
	table, err := NewTable(file, filepath.Base(path), info)
	if err != nil {
		return rows, nil, err
	}
	expected := expectations(m, table)
	if len(expected) == 0 {
		return rows, nil, fmt.Errorf("%s:1: no column has the expected output: name one of %v", filepath.Base(path), ScoreColumns(m))
	}
	for {
		if err := table.Next(&rows); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return rows, nil, err
		}
		if err := table.Check(m, &rows); err != nil {
			return rows, nil, err
		}
		for i := range expected {
			value, there, err := table.Value(expected[i].name)
			if err == nil && !there {
				err = fmt.Errorf("%s: column %s is empty", table.Where(), expected[i].name)
			}
			if err != nil {
				return rows, nil, err
			}
			expected[i].values = append(expected[i].values, value)
		}
		if rows.N > goldenMax {
			return rows, nil, fmt.Errorf("%s: more than %d rows", table.Where(), goldenMax)
		}
	}
	if rows.N == 0 {
		return rows, nil, fmt.Errorf("%s: no rows", filepath.Base(path))
	}
	return rows, expected, nil
}

func expectations(m model.Model, table *Table) []expectation {
	var list []expectation
	add := func(names []string, exact bool) {
		for i, name := range names {
			if slices.Contains(table.Others(), name) {
				list = append(list, expectation{name: name, exact: exact, at: i})
			}
		}
	}
	if exactness := exactnessOf(m); exactness.Columns > 0 {
		add(Numbered(exactness.Name, exactness.Columns), true)
	}
	add(Numbered("prediction", m.Info().Scores()), false)
	return list
}

// scored holds a model's scores of rows.
type scored struct {
	predictions []float32
	exact       []float64
}

func scoreRows(ctx context.Context, m model.Model, rows model.Rows) (scored, error) {
	info := m.Info()
	s := scored{predictions: make([]float32, rows.Len()*info.Scores())}
	if err := calling.Ask(ctx, m, rows, s.predictions, make([][]byte, rows.Len()*info.Texts())); err != nil {
		return s, err
	}
	if e, ok := m.(model.Exact); ok {
		s.exact = make([]float64, rows.Len()*e.Exactness().Columns)
		return s, e.ScoreExactly(ctx, rows, s.exact)
	}
	return s, nil
}

// same reports whether row i of s equals row k of o bit for bit, or within the tolerance. Both have
// n rows.
func (s *scored) same(i, n int, o *scored, k int, tolerance float64) bool {
	w, e := len(s.predictions)/n, len(s.exact)/n
	return slices.EqualFunc(s.predictions[i*w:(i+1)*w], o.predictions[k*w:(k+1)*w], func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b) || near(float64(a), float64(b), tolerance)
	}) && slices.EqualFunc(s.exact[i*e:(i+1)*e], o.exact[k*e:(k+1)*e], func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
}

// near reports whether a differs from b by at most the tolerance; for b above 1 it is relative.
func near(a, b, tolerance float64) bool {
	return tolerance > 0 && math.Abs(a-b) <= tolerance*max(1, math.Abs(b))
}

// invariant scores rows together and compares the scores with those of three other ways: each row
// alone, other orders in calls of other sizes, and each row beside the longest. Callers that share
// calls between events rely on the equality. With a tolerance, for models outside the process, it
// scores only the first rows alone, because each is a call.
func invariant(ctx context.Context, m model.Model, rows model.Rows, tolerance float64) (scored, error) {
	n := rows.Len()
	all, err := scoreRows(ctx, m, rows)
	if err != nil {
		return all, err
	}
	check := func(how string, order []int) error {
		part := model.Rows{Width: rows.Width, BytesWidth: rows.BytesWidth}
		for _, row := range order {
			part.Append(rows.Row(row))
		}
		got, err := scoreRows(ctx, m, part)
		if err != nil {
			return err
		}
		for i, row := range order {
			if !got.same(i, len(order), &all, row, tolerance) {
				return fmt.Errorf("row %d has other scores %s", row+1, how)
			}
		}
		return nil
	}
	longest := longestOf(rows)
	var shuffled []int
	for i := range n {
		if shuffled = append(shuffled, n-1-i); tolerance > 0 && i >= aloneMax {
			continue
		}
		if err := check("alone", []int{i}); err != nil {
			return all, err
		}
		if err := check("beside another", []int{i, longest, i}); err != nil {
			return all, err
		}
	}
	for lo := 0; lo < n; lo += 7 {
		if err := check("in another order", shuffled[lo:min(lo+7, n)]); err != nil {
			return all, err
		}
	}
	return all, check("in another order", shuffled)
}

// longestOf returns the row with the most bytes.
func longestOf(rows model.Rows) int {
	longest, most := 0, -1
	for i := range rows.Len() {
		if size := sizeOf(rows, i); size > most {
			longest, most = i, size
		}
	}
	return longest
}

// sizeOf returns how many bytes the texts of a row have.
func sizeOf(rows model.Rows, row int) int {
	size := 0
	_, texts := rows.Row(row)
	for _, text := range texts {
		size += len(text)
	}
	return size
}

// WriteGolden writes rows and the model's answers as golden vectors. columns names the columns of
// inputs.
func WriteGolden(ctx context.Context, w io.Writer, m model.Model, columns []string, rows model.Rows) error {
	s, err := scoreRows(ctx, m, rows)
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	if err := out.Write(append(slices.Clone(columns), ScoreColumns(m)...)); err != nil {
		return err
	}
	info, exactness := m.Info(), exactnessOf(m)
	for i := range rows.Len() {
		record := cellsOf(info, rows, i)
		for _, v := range s.exact[i*exactness.Columns : (i+1)*exactness.Columns] {
			record = append(record, strconv.FormatFloat(v, 'g', -1, exactness.Bits))
		}
		for _, v := range s.predictions[i*info.Scores() : (i+1)*info.Scores()] {
			record = append(record, strconv.FormatFloat(float64(v), 'g', -1, 32))
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cellsOf writes a row as Table reads it.
func cellsOf(info model.Info, rows model.Rows, row int) []string {
	var cells []string
	values, texts := rows.Row(row)
	for _, in := range info.Inputs {
		for range in.Size() {
			switch {
			case in.Type == model.Number && values[0] != values[0]:
				cells, values = append(cells, ""), values[1:]
			case in.Type == model.Number && values[0] >= 0 && values[0] < float64(len(in.Categories)):
				cells, values = append(cells, in.Categories[int(values[0])]), values[1:]
			case in.Type == model.Number:
				cells, values = append(cells, strconv.FormatFloat(values[0], 'g', -1, 64)), values[1:]
			case in.Type == model.Bytes:
				cells, texts = append(cells, base64.StdEncoding.EncodeToString(texts[0])), texts[1:]
			default:
				cells, texts = append(cells, string(texts[0])), texts[1:]
			}
		}
	}
	return cells
}

// ReadRows reads at most limit rows that the model can score from a CSV file.
func ReadRows(path string, m model.Model, limit int) (model.Rows, error) {
	info := m.Info()
	rows := model.Rows{Width: info.Width(), BytesWidth: info.BytesWidth()}
	file, err := os.Open(path)
	if err != nil {
		return rows, err
	}
	defer file.Close()
	table, err := NewTable(file, path, info)
	if err != nil {
		return rows, err
	}
	for rows.N < limit {
		if err := table.Next(&rows); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return rows, err
		}
		if err := table.Check(m, &rows); err != nil {
			return rows, err
		}
	}
	if rows.N == 0 {
		return rows, fmt.Errorf("%s: no rows", path)
	}
	return rows, nil
}
