package keyed

import (
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Features adds an event of a key to features, and reads them into its row. If one of them refuses
// the event, none of them counts it: Features returns the error and leaves k unchanged. Features
// appends to the event's Approximate the names of features that read windows beyond their max.
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
	if f.Per != nil {
		if err := split(set, cell, f, row); err != nil {
			return err
		}
	}
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

// split sets the group of the entry that is added next.
func split(set *feature.Set, cell *feature.Cell, f *operator.Feature, row *value.Row) error {
	group, err := "", error(nil)
	switch kind := f.Per.Type().Kind; kind {
	case value.String:
		group, err = f.Per.Text(row)
	default:
		var word int64
		word, err = operator.Word(f.Per, row)
		group = keyText(kind, &feature.Value{Int: word})
	}
	if err != nil {
		return fmt.Errorf("feature %s: per: %w", f.Name, err)
	}
	return set.Split(cell, f.Index, group)
}

func (m *Memory) readFeature(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) (over bool, err error) {
	if !set.AnyKind(f.Index) {
		return set.Approximate(cell, f.Index), set.Read(cell, f.Index, at, row.Numbers(f.Columns[0], len(f.Columns)))
	}
	more, err := m.readValues(set, cell, f, at, row, false)
	return more || set.Approximate(cell, f.Index), err
}

// readBefore reads the columns with values of the previous event.
func (m *Memory) readBefore(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row) error {
	if !set.AnyKind(f.Index) {
		set.ReadBefore(cell, f.Index, at, row.Numbers(f.Columns[0], len(f.Columns)))
		return nil
	}
	_, err := m.readValues(set, cell, f, at, row, true)
	return err
}

// readValues reads columns of any kind: those with values of the previous event, or all others. It
// reports whether groups were omitted.
func (m *Memory) readValues(set *feature.Set, cell *feature.Cell, f *operator.Feature, at int64, row *value.Row, before bool) (more bool, err error) {
	m.values = append(m.values[:cap(m.values)], make([]feature.Value, max(0, len(f.Columns)-cap(m.values)))...)
	more = set.ReadValues(cell, f.Index, at, before, m.values)
	for n := range f.Columns {
		v, slot := &m.values[n], &f.Columns[n]
		switch {
		case set.ColumnBefore(f.Index, n) != before:
		case !v.Present:
			row.Clear(*slot)
		case slot.Type.Kind == value.Number:
			row.SetNumber(*slot, v.Number)
		case slot.Type.Kind.Text():
			m.text = appendColumn(m.text[:0], f, slot.Type.Kind, v, set.Per(f.Index))
			if err := row.Make(slot, string(m.text)); err != nil {
				return false, fmt.Errorf("feature %s: %w", f.Name, err)
			}
		default:
			row.SetInt(*slot, v.Int)
		}
	}
	return more, nil
}

// appendColumn appends the text of a column: a text, or the encoding of a list or map.
func appendColumn(dst []byte, f *operator.Feature, kind value.Kind, v *feature.Value, per bool) []byte {
	switch {
	case kind.IsList():
		for i := range v.Items {
			dst = value.AppendElement(dst, kind.Element(), element(kind.Element(), &v.Items[i]))
		}
		return dst
	case kind.IsMap():
		entries := make([]value.Entry, len(v.Items))
		for i := range v.Items {
			entries[i] = entryOf(f, kind.Element(), &v.Items[i], per)
		}
		return value.AppendMap(dst, kind.Element(), entries)
	}
	return append(dst, v.Text...)
}

// entryOf returns an entry of a map: of groups, or of values and their counts.
func entryOf(f *operator.Feature, kind value.Kind, v *feature.Value, per bool) value.Entry {
	if per {
		return value.Entry{Key: string(v.Group), Element: element(kind, v)}
	}
	return value.Entry{Key: keyText(f.Of, v), Element: value.Element{Num: uint64(v.Count)}}
}

// element returns a value of a kind.
func element(kind value.Kind, v *feature.Value) value.Element {
	switch kind {
	case value.Number:
		return value.Element{Num: math.Float64bits(v.Number)}
	case value.String:
		return value.Element{Str: string(v.Text)}
	}
	return value.Element{Num: uint64(v.Int)}
}

// keyText returns a value of a kind as a map key: its JSON without quotes.
func keyText(kind value.Kind, v *feature.Value) string {
	if kind == value.String {
		return string(v.Text)
	}
	return strings.Trim(string(expression.AppendElement(nil, kind, element(kind, v))), `"`)
}
