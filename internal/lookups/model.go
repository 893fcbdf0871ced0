package lookups

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
)

// Model finds rows as a model answers: its input is a key, and its answer the row,
// a text that there is none of where the key has none. So what is done about
// models that are slow, late or down is done about a source too.
type Model struct {
	*Finder
	info model.Info
}

var _ model.Answerer = Model{}

// NewModel returns a finder as a model. The digest says what it finds: rows of
// another digest are others.
func NewModel(finder *Finder, digest string) Model {
	return Model{finder, model.Info{
		Kind: "lookup", Digest: digest, Remote: true,
		Inputs:  []model.Input{{Name: "key", Type: model.String}},
		Outputs: []model.Output{{Name: "row", Size: 1, Type: model.String}},
	}}
}

// NewNearest returns a finder as a model whose inputs are a vector of so many
// numbers and texts: its keys are those of lookup.Query.
func NewNearest(finder *Finder, digest string, size int, texts []string) Model {
	m := NewModel(finder, digest)
	m.info.Inputs = []model.Input{{Name: "vector", Type: model.Number, Shape: []int{size}}}
	for _, name := range texts {
		m.info.Inputs = append(m.info.Inputs, model.Input{Name: name, Type: model.String})
	}
	return m
}

// Info implements model.Model.
func (m Model) Info() model.Info { return m.info }

var (
	errNoKey    = errors.New("there is no key")
	errNoVector = errors.New("the vector has a number that is not finite")
)

// Check implements model.Model.
func (m Model) Check(vector []float64, bytes [][]byte) error {
	for _, v := range vector {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errNoVector
		}
	}
	if slices.ContainsFunc(bytes, func(text []byte) bool { return text == nil }) {
		return errNoKey
	}
	return nil
}

// Predict implements model.Model: a row is no score.
func (m Model) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

// Answer implements model.Answerer. Keys that are refused are model.RowErrors.
func (m Model) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	keys := make([]string, rows.Len())
	for i := range keys { // which outlive the row, in the cache
		if vector, texts := rows.Row(i); len(vector) > 0 {
			keys[i] = lookup.Query(vector, texts)
		} else {
			keys[i] = string(texts[0])
		}
	}
	found, err := m.Find(ctx, keys)
	if err != nil {
		return err
	}
	var refused model.RowErrors
	for i := range found {
		if texts[i] = found[i].Row; found[i].Err != nil {
			refused = append(refused, model.RowError{Row: i, Err: found[i].Err})
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}

// Ready implements model.Readier by the source's own Check. A source without one is
// taken to be ready.
func (m Model) Ready(ctx context.Context) error {
	if source, ok := m.source.(interface {
		Check(ctx context.Context) error
	}); ok {
		return source.Check(ctx)
	}
	return nil
}

// Close closes the source, where it has a method Close.
func (m Model) Close() error {
	switch source := m.source.(type) {
	case io.Closer:
		return source.Close()
	case interface{ Close() }:
		source.Close()
	}
	return nil
}
