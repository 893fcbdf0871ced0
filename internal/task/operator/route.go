package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Route finds the case that a record takes: the first whose condition
// holds.
type Route struct {
	Slot  value.Slot // gets its number
	Names []string
	Limit []time.Duration       // what 99 of 100 events of a case keep; 0 is the pipeline's budget
	When  []*expression.Program // nil holds always
	Then  []Then
}

// Then is what becomes of a record in a case of a route.
type Then uint8

// Where cases lead.
const (
	GoOn Then = iota // through the case's stages
	Dead             // a dead letter
	Drop             // nowhere
)

// Label implements Operator.
func (r *Route) Label() (kind, name string) { return "route", r.Names[0] }

// Makes implements Operator: the number of the case has no name.
func (r *Route) Makes() []value.Slot { return nil }

// Run implements Operator.
func (r *Route) Run(e *Event) error {
	on, err := r.take(e.Row)
	if !on && err == nil {
		e.Become(Filtered)
	}
	return err
}

// Redo implements Redoable: the case is found again.
func (r *Route) Redo(e *Event, _ bool) error { return r.Run(e) }

// Case returns the number of the case that a row took, from 1; 0 is none, and that
// of no route.
func (r *Route) Case(row *value.Row) int {
	if r == nil || !row.Has(r.Slot) {
		return 0
	}
	return int(row.Int(r.Slot)) + 1
}

// take finds the case that a row takes, and reports whether it goes on. An error
// makes the record a dead letter.
func (r *Route) take(row *value.Row) (bool, error) {
	for i, when := range r.When {
		if ok, err := Holds(when, row); err != nil {
			return false, fmt.Errorf("%s: %w", r.Names[i], err)
		} else if !ok {
			continue
		}
		switch r.Then[i] {
		case Dead:
			return false, fmt.Errorf("case %s is a dead letter", r.Names[i])
		case Drop:
			return false, nil
		case GoOn:
			row.SetInt(r.Slot, int64(i))
		}
		return true, nil
	}
	return false, errors.New("no case of the route holds")
}
