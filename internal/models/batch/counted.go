package batch

import (
	"context"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Counted is a model that counts the outcomes of the rows that Gather sent to it.
type Counted struct {
	model.Model
	rows, refused, faults atomic.Uint64
}

var _ model.Answerer = (*Counted)(nil)

// Outcomes counts the outcomes of rows. A row that is sent again counts again.
type Outcomes struct {
	Rows    uint64 // rows sent
	Refused uint64 // of these, rows that the model failed on while others succeeded
	Faults  uint64 // of these, rows that failed whatever they were, or got no answer
}

// Plus returns the sum of two outcomes.
func (o Outcomes) Plus(other Outcomes) Outcomes {
	return Outcomes{o.Rows + other.Rows, o.Refused + other.Refused, o.Faults + other.Faults}
}

// CountedOf returns the Counted of a model, or of the model that it wraps. It returns nil if there
// is no Counted.
func CountedOf(m model.Model) *Counted {
	if l, ok := m.(*Lists); ok {
		m = l.Model
	}
	c, _ := m.(*Counted)
	return c
}

// Outcomes returns the outcomes so far.
func (c *Counted) Outcomes() Outcomes {
	return Outcomes{c.rows.Load(), c.refused.Load(), c.faults.Load()}
}

// Answer implements model.Answerer.
func (c *Counted) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	return calling.Ask(ctx, c.Model, rows, scores, texts)
}

// add counts the rows of a call, and those that failed. It counts no failure for a row without
// content for the model.
func (c *Counted) add(rows int, failed []Failed) {
	c.rows.Add(uint64(rows))
	for i := range failed {
		switch calling.BlameOf(failed[i].Err) {
		case model.BlameRows, model.BlameAnswer:
			c.refused.Add(1)
		case model.BlameModel, model.BlameWay:
			c.faults.Add(1)
		case model.BlameSource:
		}
	}
}
