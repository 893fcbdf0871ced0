package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Route finds the case of a record: the first case with a condition that holds.
type Route struct {
	Slot  value.Slot // gets the index of the case
	Names []string
	Limit []time.Duration       // latency that 99 of 100 events of a case meet; 0 is the pipeline's budget
	When  []*expression.Program // nil always holds
	Then  []Then
}

// Then says what happens to a record in a case of a route.
type Then uint8

// The values of Then.
const (
	GoOn Then = iota // it runs the operators of the case
	Dead             // it becomes a dead letter
	Drop             // it is dropped
)

// Label implements Operator.
func (r *Route) Label() (kind, name string) { return "route", r.Names[0] }

// Makes implements Operator. It returns nil, because the slot of the case has no name.
func (r *Route) Makes() []value.Slot { return nil }

// Run implements Operator.
func (r *Route) Run(e *Event) error {
	on, err := r.take(e.Row)
	if !on && err == nil {
		e.Become(Filtered)
	}
	return err
}

// Redo implements Redoable. It finds the case again.
func (r *Route) Redo(e *Event, _ bool) error { return r.Run(e) }

// Case returns the number of the case that a row took, from 1. It returns 0 if the row took no case
// or r is nil.
func (r *Route) Case(row *value.Row) int {
	if r == nil || !row.Has(r.Slot) {
		return 0
	}
	return int(row.Int(r.Slot)) + 1
}

// take finds the case of a row, and reports whether the row continues. An error makes the record a
// dead letter.
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
