package keyed

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Features adds an event of a key to features, and reads them into its row. If one of
// them refuses the event, none counts it: Features returns the error and leaves k
// unchanged. The names of features that read windows beyond their max are appended to
// the event's Approximate.
func (m *Memory) Features(k *Key, f *operator.Features, e *operator.Event) error {
	set := f.List[0].Set()
	if f.Undoes {
		m.plan.Sets[set].Save(k.Cells[set], &m.saved)
	}
	before := len(e.Approximate)
	for i := range f.List {
		over, err := m.feature(k, &f.List[i], e.Row, e.Time)
		if err != nil {
			if f.Undoes {
				m.plan.Sets[set].Undo(k.Cells[set], &m.saved)
			}
			for _, slot := range f.Makes() {
				e.Row.Clear(slot)
			}
			e.Approximate = e.Approximate[:before]
			return err
		}
		if over {
			e.Approximate = append(e.Approximate, f.List[i].Name)
		}
	}
	return nil
}

// feature reads a feature, adds to it, or both. It reports whether it read
// windows beyond their max.
func (m *Memory) feature(k *Key, f *operator.Feature, row *value.Row, at int64) (over bool, err error) {
	set, cell := m.plan.Sets[f.Set()], k.Cells[f.Set()]
	if f.Read && set.Before(f.Index) {
		if err := m.readBefore(set, cell, f, at, row); err != nil {
			return false, err
		}
	}
	if f.Read && f.ReadFirst {
		if over, err = m.readFeature(set, cell, f, at, row); err != nil {
			return false, err
		}
	}
	if f.Add {
		wanted, err := operator.Holds(f.When, row)
		if err != nil {
			return false, fmt.Errorf("feature %s: when: %w", f.Name, err)
		}
		if wanted {
			if err := addValue(set, cell, f, at, row); err != nil {
				return false, err
			}
		}
	}
	if f.Read && !f.ReadFirst {
		return m.readFeature(set, cell, f, at, row)
	}
	return over, nil
}

// addValue adds the value of an event.
func addValue(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) error {
	switch set.Kind(f.Index) {
	case feature.Ints:
		v, err := operator.Word(f.Value, row)
		if err != nil {
			return fmt.Errorf("feature %s: value: %w", f.Name, err)
		}
		return set.AddInt(cell, f.Index, at, v)
	case feature.Texts:
		v, err := f.Value.Text(row)
		if err != nil {
			return fmt.Errorf("feature %s: value: %w", f.Name, err)
		}
		return set.AddText(cell, f.Index, at, v)
	}
	v := 0.0
	if f.Value != nil {
		var err error
		if v, err = operator.Number(f.Value, row); err != nil {
			return fmt.Errorf("feature %s: value: %w", f.Name, err)
		}
	}
	return set.Add(cell, f.Index, at, v)
}

func (m *Memory) readFeature(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) (over bool, err error) {
	if set.Kind(f.Index) == feature.Numbers {
		return set.Approximate(cell, f.Index), set.Read(cell, f.Index, at, row.Numbers(f.Columns[0], len(f.Columns)))
	}
	return set.Approximate(cell, f.Index), m.readValues(set, cell, f, at, row, false)
}

// readBefore reads the columns of what the event before said.
func (m *Memory) readBefore(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) error {
	if set.Kind(f.Index) == feature.Numbers {
		set.ReadBefore(cell, f.Index, at, row.Numbers(f.Columns[0], len(f.Columns)))
		return nil
	}
	return m.readValues(set, cell, f, at, row, true)
}

// readValues reads columns of any kind: those of what the event before said, or all others.
func (m *Memory) readValues(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row, before bool) error {
	m.values = append(m.values[:0], make([]feature.Value, len(f.Columns))...)
	set.ReadValues(cell, f.Index, at, before, m.values)
	for n := range f.Columns {
		v, slot := &m.values[n], &f.Columns[n]
		switch {
		case set.ColumnBefore(f.Index, n) != before:
		case !v.Present:
			row.Clear(*slot)
		case slot.Type.Kind == value.Number:
			row.SetNumber(*slot, v.Number)
		case slot.Type.Kind.Text():
			if err := row.Make(slot, string(v.Text)); err != nil {
				return fmt.Errorf("feature %s: %w", f.Name, err)
			}
		default:
			row.SetInt(*slot, v.Int)
		}
	}
	return nil
}
