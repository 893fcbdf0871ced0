// Package calling has what all callers of models share: one call for scores and texts, and the
// interpretation of errors.
package calling

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// Ask gets the answers of a model to rows: by Answer if it has texts, else by Predict.
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

// ErrTexts reports that scores alone were requested from a model with text outputs, or the reverse.
var ErrTexts = errors.New("its outputs are not all scores: it has to be a model.Answerer")

// ReadierOf returns the Readier of a model, or of a model that it wraps. It returns nil if neither
// is a Readier. A model that wraps another has a method Unwrap.
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
