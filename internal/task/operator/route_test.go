package operator

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

func TestRouteTakesTheFirstCaseThatHolds(t *testing.T) {
	schema := &value.Schema{}
	slot, _ := schema.Add("case", value.Type{Kind: value.Int})
	row := &schema.NewRows(1)[0]
	for _, c := range []struct {
		then Then
		on   bool
		err  string
	}{{GoOn, true, ""}, {Drop, false, ""}, {Dead, false, "case one is a dead letter"}} {
		r := Route{Slot: slot, Names: []string{"one", "two"}, When: []*expression.Program{nil, nil}, Then: []Then{c.then, GoOn}}
		row.Reset()
		on, err := r.take(row)
		if on != c.on || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%v: %v, %v", c.then, on, err)
		}
		if took := (&Guard{Slot: slot, Case: 0}).Holds(row); took != c.on {
			t.Errorf("%v: the first case's guard holds: %v", c.then, took)
		}
		if (&Guard{Slot: slot, Case: 1}).Holds(row) {
			t.Errorf("%v: the second case's guard holds", c.then)
		}
	}
	if _, err := (&Route{Slot: slot}).take(row); err == nil {
		t.Error("a route without a case that holds has no error")
	}
}
