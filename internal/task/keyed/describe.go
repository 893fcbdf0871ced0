package keyed

import (
	"time"

	"github.com/afterbay/afterbay/internal/task/operator"
)

// Column is a name and its value.
type Column struct {
	Name  string
	Value float64
}

// Describe returns the features of a user key as of its newest event, in the
// order of the stages, from its stored entries, which get returns by state key;
// nil where the key has none.
func (p *Plan) Describe(stages []operator.Placed, key string, get func(stored []byte) ([]byte, error)) (columns []Column, newest time.Time, err error) {
	k, err := Read(p, key, get)
	if err != nil || k.Newest == Never {
		return nil, time.Time{}, err
	}
	for i := range stages {
		var features *operator.Features
		switch op := stages[i].Operator.(type) {
		case *operator.Features:
			features = op
		case *operator.Stage:
			features = op.Asks
		default:
			continue
		}
		for _, f := range features.List {
			if !f.Read {
				continue
			}
			values := make([]float64, len(f.Columns))
			if err := p.Sets[f.Set()].Read(k.Cells[f.Set()], f.Index, k.Newest, values); err != nil {
				return nil, time.Time{}, err
			}
			for c, slot := range f.Columns {
				columns = append(columns, Column{slot.Name, values[c]})
			}
		}
	}
	return columns, time.UnixMicro(k.Newest).UTC(), nil
}
