package operator

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Let computes expressions: the steps let and decide.
type Let struct {
	Kind string // `let` or `decide`
	List []Assign
}

// Label implements Operator.
func (l *Let) Label() (kind, name string) {
	if len(l.List) > 0 {
		name = l.List[0].Name
	}
	return l.Kind, name
}

// Makes implements Operator.
func (l *Let) Makes() []value.Slot { return slotsOf(nil, l.List) }

// Run implements Operator.
func (l *Let) Run(e *Event) error { return AssignAll(l.List, e.Row) }

// Redo implements Redoable. An expression may have changed since the event failed.
func (l *Let) Redo(e *Event, anew bool) error {
	if anew || Lacks(e.Row, l) {
		return l.Run(e)
	}
	return nil
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

// slotsOf returns slots followed by the slots of a list.
func slotsOf(slots []value.Slot, list []Assign) []value.Slot {
	slots = slots[:len(slots):len(slots)]
	for i := range list {
		slots = append(slots, list[i].Slot)
	}
	return slots
}

// Holds evaluates a condition. A nil condition is true.
func Holds(when *expression.Program, row *value.Row) (bool, error) {
	if when == nil {
		return true, nil
	}
	return when.Bool(row)
}
