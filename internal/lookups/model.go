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

// Model is a Finder with the interface of a model. The input is a key. The output is the row as a
// text, which is absent if the key has no row. So the engine handles a slow or failing source in
// the same way as a slow or failing model.
type Model struct {
	*Finder
	info model.Info
}

var _ model.Answerer = Model{}

// NewModel returns a finder as a model. The digest identifies the source of the rows. Rows found
// with another digest are not reused.
func NewModel(finder *Finder, digest string) Model {
	return Model{finder, model.Info{
		Kind: "lookup", Digest: digest, Remote: true,
		Inputs:  []model.Input{{Name: "key", Type: model.String}},
		Outputs: []model.Output{{Name: "row", Size: 1, Type: model.String}},
	}}
}

// NewNearest returns a finder as a model with a vector of this size and texts as inputs. The keys
// are those of lookup.Query.
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

// Predict implements model.Model. It returns an error, because a row is not a score.
func (m Model) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

// Answer implements model.Answerer. Refused keys become model.RowErrors.
func (m Model) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	keys := make([]string, rows.Len())
	for i := range keys { // copies, because the cache keeps keys longer than the rows live
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

// Ready implements model.Readier with the source's method Check. A source without one is always
// ready.
func (m Model) Ready(ctx context.Context) error {
	if source, ok := m.source.(interface {
		Check(ctx context.Context) error
	}); ok {
		return source.Check(ctx)
	}
	return nil
}

// Close closes the source if it has a method Close.
func (m Model) Close() error {
	switch source := m.source.(type) {
	case io.Closer:
		return source.Close()
	case interface{ Close() }:
		source.Close()
	}
	return nil
}
