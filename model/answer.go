package model

import (
	"context"
	"errors"
	"fmt"
)

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

// Ask has a model answer rows: by Answer where it has texts, else by Predict.
func Ask(ctx context.Context, m Model, rows Rows, scores []float32, texts [][]byte) error {
	if len(texts) == 0 {
		return m.Predict(ctx, rows, scores)
	}
	a, ok := m.(Answerer)
	if !ok {
		return fmt.Errorf("model of kind %s: %w", m.Info().Kind, ErrTexts)
	}
	return a.Answer(ctx, rows, scores, texts)
}

// ErrTexts says that a model whose outputs are texts was asked for scores alone, or
// the other way round.
var ErrTexts = errors.New("its outputs are not all scores: it has to be a model.Answerer, and asked by model.Ask")
