package model

import "context"

// Answer is what a model says of a row.
type Answer struct {
	Scores []float32
	Texts  [][]byte // nil is a text that there is none of
}

// Answerer is implemented by models that answer rows with texts, beside scores or
// without: words, the row of a table, a picture. Predict of a model whose
// Info().Texts() is not 0 fails.
type Answerer interface {
	Model

	// Answer is Predict, and writes the texts of row i to texts[i*n:], where n is
	// Info().Texts(), in the order of the outputs; nil is one that there is none of.
	// Their memory is the caller's.
	Answer(ctx context.Context, rows Rows, scores []float32, texts [][]byte) error
}
