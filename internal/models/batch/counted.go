package batch

import (
	"context"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Counted is a model of which it is known what came of the rows that Gather asked it
// for, wherever it is computed.
type Counted struct {
	model.Model
	rows, refused, faults atomic.Uint64
}

var _ model.Answerer = (*Counted)(nil)

// Outcomes is what came of rows. One that is asked for again counts again.
type Outcomes struct {
	Rows    uint64 // asked for
	Refused uint64 // of these, those over which the model failed, and not over others
	Faults  uint64 // of these, those over which it failed whatever they were, or did not answer
}

// Plus adds up what came of the rows of two models.
func (o Outcomes) Plus(other Outcomes) Outcomes {
	return Outcomes{o.Rows + other.Rows, o.Refused + other.Refused, o.Faults + other.Faults}
}

// CountedOf returns the Counted of a model, or of the one that it makes calls of; nil if
// there is none.
func CountedOf(m model.Model) *Counted {
	if l, ok := m.(*Lists); ok {
		m = l.Model
	}
	c, _ := m.(*Counted)
	return c
}

// Outcomes returns what came of the rows so far.
func (c *Counted) Outcomes() Outcomes {
	return Outcomes{c.rows.Load(), c.refused.Load(), c.faults.Load()}
}

// Answer implements model.Answerer.
func (c *Counted) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	return calling.Ask(ctx, c.Model, rows, scores, texts)
}

// add counts what came of rows of which these failed. Those whose content was not
// there for the model are nobody's.
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
