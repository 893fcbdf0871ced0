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
	if f.Read && f.ReadFirst {
		if over, err = readFeature(set, cell, f, at, row); err != nil {
			return false, err
		}
	}
	if f.Add {
		wanted, err := operator.Holds(f.When, row)
		if err != nil {
			return false, fmt.Errorf("feature %s: when: %w", f.Name, err)
		}
		v := 0.0
		if wanted && f.Value != nil {
			if v, err = operator.Number(f.Value, row); err != nil {
				return false, fmt.Errorf("feature %s: value: %w", f.Name, err)
			}
		}
		if wanted {
			if err := set.Add(cell, f.Index, at, v); err != nil {
				return false, err
			}
		}
	}
	if f.Read && !f.ReadFirst {
		return readFeature(set, cell, f, at, row)
	}
	return over, nil
}

func readFeature(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) (over bool, err error) {
	return set.Approximate(cell, f.Index), set.Read(cell, f.Index, at, row.Numbers(f.Columns[0], len(f.Columns)))
}
