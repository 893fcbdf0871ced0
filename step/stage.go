package step

import (
	"fmt"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/value"
)

// Stage is one thing done to each record; exactly one of the fields after Guard
// is set.
type Stage struct {
	Name    string // of dead letters: "let", "features", "score", "call", "route", "decide", "emit"
	Guard   *Guard // nil is for all records
	Assign  []Assign
	Feature *Feature
	Score   *Score
	Call    *Call
	Route   *Route
	Emit    *Emit
}

// Guard holds for the records that took one case of a route.
type Guard struct {
	Slot value.Slot // of kind int
	Case int64
}

// Holds reports whether the guard lets a row through; a nil one lets all.
func (g *Guard) Holds(row *value.Row) bool {
	return g == nil || row.Has(g.Slot) && row.Int(g.Slot) == g.Case
}

// Assign stores the value of an expression in a slot.
type Assign struct {
	Name    string // for errors
	Slot    value.Slot
	Program *expression.Program
}

// AssignAll stores the values of the expressions, in order.
func AssignAll(list []Assign, row *value.Row) error {
	for i := range list {
		if err := list[i].Program.Store(row, list[i].Slot); err != nil {
			return fmt.Errorf("%s: %w", list[i].Name, err)
		}
	}
	return nil
}

// Holds evaluates a condition; nil is true.
func Holds(when *expression.Program, row *value.Row) (bool, error) {
	if when == nil {
		return true, nil
	}
	return when.Bool(row)
}

// Number evaluates a program of type int or number.
func Number(p *expression.Program, row *value.Row) (float64, error) {
	if p.Type().Kind == value.Int {
		v, err := p.Int(row)
		return float64(v), err
	}
	return p.Number(row)
}

// Feature reads a feature into its columns, folds a value into it, or
// both.
type Feature struct {
	Name      string
	Late      bool // which of the plan's sets
	Index     int  // in the set
	Read      bool
	Add       bool
	ReadFirst bool                // read before adding: elapsed
	Value     *expression.Program // nil counts events
	When      *expression.Program // of the addition; nil is always
	Columns   []value.Slot
}

// Emit writes an output record. What can fail about it is computed at its
// place, into slots; the record itself is made in position order.
type Emit struct {
	Index   int // among the pipeline's emits: part of the default id
	Output  int // in Plan.Outputs
	When    *expression.Program
	ID      *value.Slot // nil for the default
	Key     *value.Slot // nil for the input's key and partition
	Compute []Assign    // the values and the id
	Names   [][]byte    // `"name":` of each value
	Values  []value.Slot
}
