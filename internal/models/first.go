package models

import (
	"context"

	"github.com/afterbay/afterbay/model"
)

// First returns a stateless view of the model: it treats each row as the first of its key. Use it
// for independent rows. A model without state is returned unchanged.
func First(m model.Model) model.Model {
	if m.Info().State == 0 {
		return m
	}
	return first{m}
}

type first struct{ model.Model }

// Info implements model.Model.
func (f first) Info() model.Info { return f.Model.Info().WithoutState() }

// Check implements model.Model.
func (f first) Check(values []float64, bytes [][]byte) error {
	return f.Model.Check(values, append(bytes[:len(bytes):len(bytes)], nil))
}

// Predict implements model.Model.
func (f first) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	all := model.Rows{Width: rows.Width, Values: rows.Values, BytesWidth: rows.BytesWidth + 1, N: rows.Len()}
	for i := range rows.Len() {
		_, bytes := rows.Row(i)
		all.Bytes = append(append(all.Bytes, bytes...), nil)
	}
	wide, width := f.Model.Info().Scores(), f.Info().Scores()
	answer := make([]float32, rows.Len()*wide)
	if err := f.Model.Predict(ctx, all, answer); err != nil {
		return err
	}
	for i := range rows.Len() {
		copy(scores[i*width:(i+1)*width], answer[i*wide:])
	}
	return nil
}
