package operator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Gather makes a list of values of elements.
type Gather struct {
	To     value.Slot          // the list
	When   *expression.Program // whether the list has the value of an element; nil always holds
	Sort   *expression.Program // number to sort by, ascending; nil keeps the order
	Top    int                 // number of values to keep from the start; 0 keeps all
	Object *Object             // values that are objects
	Value  Assign              // other values
}

// gathered is a list that is being made.
type gathered struct {
	*Gather
	list  []place
	bytes []byte // bytes of the objects
	size  int    // size of the texts
}

// place is a value of the list.
type place struct {
	sort float64
	value.Element
}

// add adds the value of the row's element.
func (g *gathered) add(row *value.Row) error {
	wanted, err := Holds(g.When, row)
	if err != nil || !wanted {
		return err
	}
	var p place
	if g.Sort != nil {
		if p.sort, err = Number(g.Sort, row); err != nil {
			return fmt.Errorf("sort: %w", err)
		}
	}
	if p.Element, err = g.value(row); err != nil {
		return err
	}
	if g.size += len(p.Str); g.size > value.TextsMax {
		return &value.Excess{Size: g.size, All: true}
	}
	g.list = append(g.list, p)
	return nil
}

// value returns the value of the row's element.
func (g *gathered) value(row *value.Row) (v value.Element, err error) {
	if g.Object == nil {
		if err = AssignAll([]Assign{g.Value}, row); err == nil {
			v = row.Element(&g.Value.Slot)
		}
		return v, err
	}
	if err = AssignAll(g.Object.Compute, row); err != nil {
		return v, err
	}
	at, size := len(g.bytes), 0
	if g.bytes, size = g.Object.AppendValue(g.bytes, row, value.TextMax); size > value.TextMax {
		return v, &value.Excess{Size: size}
	}
	v.Str = value.Text(g.bytes[at:])
	return v, nil
}

// store stores the list in the row.
func (g *gathered) store(row *value.Row) error {
	if g.Sort != nil {
		slices.SortStableFunc(g.list, func(a, b place) int { return cmp.Compare(a.sort, b.sort) })
	}
	if g.Top > 0 {
		g.list = g.list[:min(len(g.list), g.Top)]
	}
	kind, size := g.To.Type.Kind.Element(), 0
	for i := range g.list {
		size += value.ElementBytes(kind, g.list[i].Element)
	}
	text := make([]byte, 0, size)
	for i := range g.list {
		text = value.AppendElement(text, kind, g.list[i].Element)
	}
	if err := row.Make(&g.To, value.Text(text)); err != nil {
		return fmt.Errorf("%s: %w", g.To.Name, err)
	}
	return nil
}
