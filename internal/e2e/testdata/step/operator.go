package operator

import (
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Upper puts a text in capitals.
type Upper struct{ Of, To value.Slot }

// Label implements Operator.
func (u *Upper) Label() (kind, name string) { return "upper", u.To.Name }

// Makes implements Operator.
func (u *Upper) Makes() []value.Slot { return []value.Slot{u.To} }

// Run implements Operator.
func (u *Upper) Run(e *Event) error { return e.Row.Make(&u.To, strings.ToUpper(e.Row.Text(u.Of))) }

// Redo implements Redoable.
func (u *Upper) Redo(e *Event, anew bool) error {
	if anew || Lacks(e.Row, u) {
		return u.Run(e)
	}
	return nil
}
