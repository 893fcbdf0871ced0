package operator

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Placed is an operator in its place in a pipeline.
type Placed struct {
	Operator
	At    int    // number among the operators of the plan, from 1
	Guard *Guard // nil lets all events through
}

// Label identifies the operator in a pipeline by its name in the pipeline file. So it is found
// again after steps around it were added or removed. Two routes with the same first case share a
// label. Calls without outputs may share one too.
func (p *Placed) Label() string {
	kind, name := p.Operator.Label()
	if p.Guard != nil {
		name += " in " + p.Guard.Name
	}
	return kind + " " + name
}

// Kind returns the kind of the step that it is made of.
func (p *Placed) Kind() string {
	kind, _ := p.Operator.Label()
	return kind
}

// How returns the settings of its calls to a model or service, or nil if it makes none.
func (p *Placed) How() *Batch {
	if b, ok := p.Operator.(Batched); ok {
		return b.How()
	}
	return nil
}

// OnFailure returns the operators that run for an event that it gives up.
func (p *Placed) OnFailure() []Placed {
	if how := p.How(); how != nil {
		return how.OnFailure
	}
	return nil
}

// Guard holds for the records that took one case of a route.
type Guard struct {
	Slot value.Slot // slot of kind int
	Case int64
	Name string // name of the case, after the names of the enclosing cases; suffix of the labels of its operators
}

// Holds reports whether the guard lets a row through. A nil guard lets every row through.
func (g *Guard) Holds(row *value.Row) bool {
	return g == nil || row.Has(g.Slot) && row.Int(g.Slot) == g.Case
}

// Guards holds the guard of a case and those of the enclosing cases, the innermost last.
type Guards []*Guard

// Innermost returns the last guard, or nil outside of all cases.
func (g Guards) Innermost() *Guard {
	if len(g) == 0 {
		return nil
	}
	return g[len(g)-1]
}

// Within reports whether events that pass all of g are in the case of a guard. A nil guard means
// anywhere.
func (g Guards) Within(of *Guard) bool { return of == nil || slices.Contains(g, of) }

// Exclude reports whether no event passes both g and o, because they are in two cases of one route.
func (g Guards) Exclude(o Guards) bool {
	return slices.ContainsFunc(g, func(a *Guard) bool {
		return slices.ContainsFunc(o, func(b *Guard) bool { return a.Slot == b.Slot && a.Case != b.Case })
	})
}

// Lacks reports whether a row lacks a value that every row has after an operator.
func Lacks(row *value.Row, o Operator) bool {
	return slices.ContainsFunc(o.Makes(), func(s value.Slot) bool { return !s.Type.Optional && !row.Has(s) })
}
