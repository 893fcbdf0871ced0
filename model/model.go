// Package model turns rows of features into predictions.
package model

import "context"

// Rows is a batch of feature rows, row-major: row i is
// Values[i*Width : (i+1)*Width]. A missing value is NaN.
type Rows struct {
	Width  int
	Values []float32
}

// Len returns the number of rows.
func (r Rows) Len() int {
	if r.Width == 0 {
		return 0
	}
	return len(r.Values) / r.Width
}

// Info describes a loaded model.
type Info struct {
	Kind    string   // "xgboost"
	Digest  string   // sha256 of the file, 64 hex digits
	Inputs  int      // columns of a row
	Names   []string // names of the inputs, in order; empty where the file has none
	Outputs int      // scores per row
	Trees   int
	// Remote says that Predict asks something outside the process, which may
	// bill or remember: such a model gets no event before it is durable.
	Remote   bool
	Describe string // objective and shape, for people
}

// Model turns rows into scores. Implementations are safe for concurrent use
// and keep neither rows nor scores. The score of a row depends on that row
// alone, bit for bit, whatever else is in the batch.
type Model interface {
	// Predict writes the scores of row i to scores[i*Outputs:]. It fails as a
	// whole: an error says nothing about single rows. ctx's deadline is what
	// is left of the batch's latency budget.
	Predict(ctx context.Context, rows Rows, scores []float32) error

	// Check returns why a single row, of Info().Inputs values, cannot be
	// scored, or nil. Predict may be called only with rows that pass.
	Check(row []float32) error

	// Info describes the model. It does not change.
	Info() Info
}
