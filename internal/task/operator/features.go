package operator

import (
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Features counts events in features of one set, and reads them. Either all of them count an event,
// or none does.
type Features struct {
	List   []Feature
	Undoes bool // a feature of List may refuse an event that an earlier one has counted
}

// NewFeatures returns the operator of features of one set.
func NewFeatures(list []Feature) *Features {
	f := &Features{List: list}
	counted := false
	for i := range list {
		f.Undoes = f.Undoes || counted && list[i].Refuses
		counted = counted || list[i].Add
	}
	return f
}

// Label implements Operator.
func (f *Features) Label() (kind, name string) {
	name = f.List[0].Name
	if !f.List[0].Read {
		name += " write"
	}
	return "features", name
}

// Makes implements Operator.
func (f *Features) Makes() (slots []value.Slot) {
	for i := range f.List {
		slots = append(slots, f.List[i].Columns...)
	}
	return slots
}

// Run implements Operator.
func (f *Features) Run(e *Event) error { return e.Kept.Count(e, f) }

// Feature reads a feature into its columns, adds a value to it, or both.
type Feature struct {
	Name      string
	Late      bool // it is in the plan's Late set
	Index     int  // index in the set
	Read      bool
	Add       bool
	ReadFirst bool                // read before adding, as elapsed does
	Refuses   bool                // it may refuse an event
	Value     *expression.Program // nil counts events
	When      *expression.Program // condition for adding; nil always holds
	Per       *expression.Program // nil if the set's feature has no groups
	Columns   []value.Slot
	Of        value.Kind // kind of the values
}

// Set returns the number of the plan's set with the feature: 0 is Early, 1 is Late.
func (f *Feature) Set() int {
	if f.Late {
		return 1
	}
	return 0
}

// Word evaluates a program of type bool, int or time.
func Word(p *expression.Program, row *value.Row) (int64, error) {
	if p.Type().Kind != value.Bool {
		return p.Int(row)
	}
	v, err := p.Bool(row)
	if v {
		return 1, err
	}
	return 0, err
}

// Number evaluates a program of type int or number.
func Number(p *expression.Program, row *value.Row) (float64, error) {
	if p.Type().Kind == value.Int {
		v, err := p.Int(row)
		return float64(v), err
	}
	return p.Number(row)
}
