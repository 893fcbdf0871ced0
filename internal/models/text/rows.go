package text

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/afterbay/afterbay/model"
)

// tolerance is the largest difference of scores from those of scikit-learn.
const tolerance = 1e-12

var _ model.Exact = (*Model)(nil)

// Exactness implements model.Exact: scores equal those of scikit-learn to 1e-12.
func (m *Model) Exactness() model.Exactness {
	return model.Exactness{Name: "score", Columns: len(m.outputs), Bits: 64, Tolerance: tolerance}
}

// Predict implements model.Model. It does what Score does, for rows with a number for each Number
// among the inputs, and bytes for each Text and Category.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return scoreRows(ctx, m, rows, scores)
}

// ScoreExactly implements model.Exact. Numbers are those of the rows.
func (m *Model) ScoreExactly(ctx context.Context, rows model.Rows, out []float64) error {
	return scoreRows(ctx, m, rows, out)
}

// Check implements model.Model. It does what CheckRow does, for a row of model.Rows.
func (m *Model) Check(values []float64, bytes [][]byte) error {
	if len(values) != m.numbers || len(bytes) != len(m.inputs)-m.numbers {
		return fmt.Errorf("a row of %d numbers and %d texts for a model of %d and %d", len(values), len(bytes), m.numbers, len(m.inputs)-m.numbers)
	}
	s := m.scratches.Get().(*scratch)
	defer m.put(s)
	return m.CheckRow(s.row.fill(m, values, bytes), 0)
}

func scoreRows[T float32 | float64](ctx context.Context, m *Model, rows model.Rows, out []T) error {
	n, width := rows.Len(), len(m.outputs)
	if rows.Width != m.numbers || rows.BytesWidth != len(m.inputs)-m.numbers || len(rows.Values) != n*rows.Width || len(rows.Bytes) != n*rows.BytesWidth {
		return fmt.Errorf("%d rows of %d numbers and %d texts for a model of %d and %d", n, rows.Width, rows.BytesWidth, m.numbers, len(m.inputs)-m.numbers)
	}
	if len(out) < n*width {
		return fmt.Errorf("room for %d scores of %d rows of %d", len(out), n, width)
	}
	s := m.scratches.Get().(*scratch)
	defer m.put(s)
	if len(s.row.scores) == 0 {
		s.row.scores = make([]float64, width)
	}
	var failed model.RowErrors
	for i := range n {
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		columns := s.row.fill(m, rows.Values[i*rows.Width:(i+1)*rows.Width], rows.Bytes[i*rows.BytesWidth:(i+1)*rows.BytesWidth])
		if err := m.CheckRow(columns, 0); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if err := m.row(s, columns, 0, s.row.scores); err != nil {
			failed = append(failed, model.RowError{Row: i, Err: err})
			continue
		}
		for o, v := range s.row.scores {
			out[i*width+o] = T(v)
		}
	}
	if failed != nil {
		return failed
	}
	return nil
}

// oneRow is a row of model.Rows as columns.
type oneRow struct {
	columns []Column
	numbers []float64
	texts   []string
	missing []bool
	scores  []float64
}

func (r *oneRow) fill(m *Model, values []float64, bytes [][]byte) []Column {
	if r.columns == nil {
		n := len(m.inputs)
		r.columns, r.numbers, r.texts, r.missing = make([]Column, n), make([]float64, n), make([]string, n), make([]bool, n)
		for i, in := range m.inputs {
			if in.Kind == Number {
				r.columns[i].Numbers = r.numbers[i : i+1]
			} else {
				r.columns[i].Texts, r.columns[i].Missing = r.texts[i:i+1], r.missing[i:i+1]
			}
		}
	}
	for i, in := range m.inputs {
		if in.Kind == Number {
			r.numbers[i], values = values[0], values[1:]
			continue
		}
		r.texts[i], r.missing[i] = unsafe.String(unsafe.SliceData(bytes[0]), len(bytes[0])), bytes[0] == nil
		bytes = bytes[1:]
	}
	return r.columns
}

// describeInputs returns the inputs in the form of model.Info.
func (m *Model) describeInputs() []model.Input {
	var list []model.Input
	for _, in := range m.inputs {
		kind := model.String
		if in.Kind == Number {
			kind = model.Number
		}
		list = append(list, model.Input{Name: in.Name, Type: kind})
	}
	return list
}

// describeOutputs returns the outputs in the form of model.Info.
func (m *Model) describeOutputs() []model.Output {
	var list []model.Output
	for _, name := range m.outputs {
		list = append(list, model.Output{Name: name, Size: 1})
	}
	return list
}

// countNumbers returns how many inputs are numbers.
func countNumbers(inputs []Input) int {
	n := 0
	for _, in := range inputs {
		if in.Kind == Number {
			n++
		}
	}
	return n
}
