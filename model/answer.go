package model

import "context"

// Answer is a model's answer to one row.
type Answer struct {
	Scores []float32
	Texts  [][]byte // nil marks a missing text
}

// Answerer is implemented by models that answer rows with texts, with or without scores: words, the
// row of a table, a picture. If Info().Texts() is not 0, Predict fails.
type Answerer interface {
	Model

	// Answer does what Predict does, and also writes texts. It writes the texts of row i to
	// texts[i*n:], where n is Info().Texts(), in the order of the outputs. nil marks a missing
	// text. The caller owns their memory.
	Answer(ctx context.Context, rows Rows, scores []float32, texts [][]byte) error
}
