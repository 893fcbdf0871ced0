package group

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Difference returns the name of the group's first aggregate that differs between two stored
// entries of a key, and both values. It returns "" if no aggregate differs or the entries have
// none.
func Difference(g *operator.Group, key, mine, other []byte) (name, a, b string) {
	x, y := foldsOf(g, key, mine), foldsOf(g, key, other)
	for i := range min(len(x), len(y)) {
		m, o := &x[i], &y[i]
		if m.count != o.count {
			return g.Columns.Count.Name, fmt.Sprint(m.count), fmt.Sprint(o.count)
		}
		for k := range g.Values {
			if p, q := m.aggregates[k], o.aggregates[k]; p.n != q.n || !slices.Equal(p.parts, q.parts) {
				return g.Values[k].Slot.Name, p.text(), q.text()
			}
		}
	}
	return "", "", ""
}

// text returns an aggregate in readable form: the parts of a sum, and its number of events.
func (a *aggregate) text() string { return fmt.Sprintf("%v of %d events", a.parts, a.n) }

// foldsOf returns the folds of a stored entry: of a pane, or of groups that store no events.
func foldsOf(g *operator.Group, key, data []byte) (list []fold) {
	r := packed.Reader{Rest: data}
	n := 1
	switch version := r.Byte(); {
	case key[0] == statekey.Pane && version == paneVersion:
	case key[0] == statekey.Group && version == foldsVersion:
		n = r.Count()
	default:
		return nil
	}
	for range n {
		var f fold
		if !f.parse(g, &r) {
			return nil
		}
		list = append(list, f)
	}
	return list
}
