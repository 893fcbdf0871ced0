package keyed

import (
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Column is a name and its value: a number, or JSON.
type Column struct{ Name, Value string }

// Describe returns the features of a user key as of its newest event, in the order of the stages.
// get returns the stored entry of a state key, or nil if the key has none.
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
			if columns, err = p.describe(columns, k, f); err != nil {
				return nil, time.Time{}, err
			}
		}
	}
	return columns, time.UnixMicro(k.Newest).UTC(), nil
}

// describe appends the columns of a feature.
func (p *Plan) describe(columns []Column, k *Key, f operator.Feature) ([]Column, error) {
	set, cell := p.Sets[f.Set()], k.Cells[f.Set()]
	var schema value.Schema
	for _, slot := range f.Columns {
		if _, err := schema.Add(slot.Name, slot.Type); err != nil {
			return nil, err
		}
	}
	f.Columns = schema.Slots
	row, m := &schema.NewRows(1)[0], &Memory{}
	if set.Before(f.Index) {
		if err := m.readBefore(set, cell, &f, k.Newest, row); err != nil {
			return nil, err
		}
	}
	if _, err := m.readFeature(set, cell, &f, k.Newest, row); err != nil {
		return nil, err
	}
	for i := range schema.Slots {
		slot := &schema.Slots[i]
		text := string(expression.AppendValue(nil, row, slot))
		if slot.Type.Kind == value.Number {
			text = strconv.FormatFloat(row.Number(*slot), 'g', -1, 64)
		}
		columns = append(columns, Column{slot.Name, text})
	}
	return columns, nil
}
