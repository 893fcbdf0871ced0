// Package calling is what callers of models share: one call for scores and texts, and what an
// error says of whose fault it is.
package calling

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// Ask has a model answer rows: by Answer where it has texts, else by Predict.
func Ask(ctx context.Context, m model.Model, rows model.Rows, scores []float32, texts [][]byte) error {
	if len(texts) == 0 {
		return m.Predict(ctx, rows, scores)
	}
	a, ok := m.(model.Answerer)
	if !ok {
		return fmt.Errorf("model of kind %s: %w", m.Info().Kind, ErrTexts)
	}
	return a.Answer(ctx, rows, scores, texts)
}

// ErrTexts says that a model whose outputs are texts was asked for scores alone, or
// the other way round.
var ErrTexts = errors.New("its outputs are not all scores: it has to be a model.Answerer")

// ReadierOf returns what a model, or one that it wraps, implements Readier by; nil if
// there is none. A model that wraps another has a method Unwrap.
func ReadierOf(m model.Model) model.Readier {
	for {
		if r, ok := m.(model.Readier); ok {
			return r
		}
		wrapper, ok := m.(interface{ Unwrap() model.Model })
		if !ok {
			return nil
		}
		m = wrapper.Unwrap()
	}
}
