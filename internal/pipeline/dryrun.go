package pipeline

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Asked counts the requests of a dry run to a model or lookup outside of the process.
type Asked struct {
	Name  string  `json:"name"` // name@version of a model
	Rows  int64   `json:"rows"`
	Price float64 `json:"price,omitempty"` // price of one answer; 0 if unknown
}

// asked returns the requests that a run would have made. It omits rows with an answer in the
// journal.
func asked(muted []*muted) (list []Asked) {
	for _, m := range muted {
		i := slices.IndexFunc(list, func(a Asked) bool { return a.Name == m.name })
		if i < 0 {
			list, i = append(list, Asked{Name: m.name, Price: m.price}), len(list)
		}
		list[i].Rows += m.rows.Load()
	}
	return list
}

// dryRun collects the models and services outside of the process that a dry run does not call.
type dryRun []*muted

// mute returns a stand-in for a model or service outside of the process. It returns other models
// unchanged.
func (r *dryRun) mute(how operator.Batch) model.Model {
	if how.Calling == nil && !how.Model.Info().Remote {
		return how.Model
	}
	m := &muted{Model: how.Model, name: how.Name, rowless: how.Finds}
	if how.Calling != nil {
		m.price = how.Calling.Price
	}
	*r = append(*r, m)
	if l, ok := how.Model.(*batch.Lists); ok {
		m.Model = l.Model
		return l.Of(m)
	}
	return m
}

// muted is the stand-in for a model. It does not call the model.
type muted struct {
	model.Model
	name    string
	price   float64
	rowless bool // it stands in for a lookup, and finds no rows
	rows    atomic.Int64
}

var _ model.Answerer = (*muted)(nil)

// Predict implements model.Model.
func (m *muted) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return m.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer.
func (m *muted) Answer(_ context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	m.rows.Add(int64(rows.Len()))
	clear(scores)
	for i := range texts {
		if texts[i] = nil; !m.rowless {
			texts[i] = []byte{}
		}
	}
	return nil
}
