package operator

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Placed is an operator in its place in a pipeline.
type Placed struct {
	Operator
	At    int    // among the operators of the plan, from 1
	Guard *Guard // nil is for all events
}

// Label says which operator of a pipeline it is by what it is named in the file, so
// that it is found again where steps came or went around it. Two routes with the same
// first case share one, and so may calls without outputs.
func (p *Placed) Label() string {
	kind, name := p.Operator.Label()
	if p.Guard != nil {
		name += " in " + p.Guard.Name
	}
	return kind + " " + name
}

// Kind is the kind of the step that it is made of.
func (p *Placed) Kind() string {
	kind, _ := p.Operator.Label()
	return kind
}

// How returns how it asks a model or service; nil if it does not.
func (p *Placed) How() *Batch {
	if b, ok := p.Operator.(Batched); ok {
		return b.How()
	}
	return nil
}

// OnFailure returns what is done for an event that it gives up.
func (p *Placed) OnFailure() []Placed {
	if how := p.How(); how != nil {
		return how.OnFailure
	}
	return nil
}

// Guard holds for the records that took one case of a route.
type Guard struct {
	Slot value.Slot // of kind int
	Case int64
	Name string // of the case, behind those of the cases around it: ends the labels of its operators
}

// Holds reports whether the guard lets a row through; a nil one lets all.
func (g *Guard) Holds(row *value.Row) bool {
	return g == nil || row.Has(g.Slot) && row.Int(g.Slot) == g.Case
}

// Guards are that of a case of a route and those of the cases around it, the innermost last.
type Guards []*Guard

// Innermost returns the last; nil outside of all cases.
func (g Guards) Innermost() *Guard {
	if len(g) == 0 {
		return nil
	}
	return g[len(g)-1]
}

// Within reports whether events that take all of g are in the case of a guard, nil being
// everywhere.
func (g Guards) Within(of *Guard) bool { return of == nil || slices.Contains(g, of) }

// Exclude reports whether no event takes both g and o: they are in two cases of one route.
func (g Guards) Exclude(o Guards) bool {
	return slices.ContainsFunc(g, func(a *Guard) bool {
		return slices.ContainsFunc(o, func(b *Guard) bool { return a.Slot == b.Slot && a.Case != b.Case })
	})
}

// Lacks reports whether a row has no value of a slot that it always has after an operator.
func Lacks(row *value.Row, o Operator) bool {
	return slices.ContainsFunc(o.Makes(), func(s value.Slot) bool { return !s.Type.Optional && !row.Has(s) })
}
