package operator

import (
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/udf"
)

// Call calls a function in Go.
type Call struct {
	Index    int        // index among the pipeline's calls
	Name     string     // name of the function
	As       string     // suffix of the ids of its outputs, like Emit.Name
	ID       value.Slot // slot of the event id
	Function *udf.Function
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Topics   []string
	Writes   []int // index in Plan.Outputs of each topic
}

// Label implements Operator.
func (c *Call) Label() (kind, name string) {
	if name = c.Name; c.As != "" {
		name += "#" + c.As
	}
	if !c.Function.Keyed && len(c.Outputs) > 0 { // another step may call the same function
		name += " " + c.Outputs[0].Name
	}
	return "call", name
}

// Makes implements Operator.
func (c *Call) Makes() []value.Slot { return c.Outputs }

// Run implements Operator. It calls the function for an event.
func (c *Call) Run(e *Event) error {
	if wanted, err := Holds(c.When, e.Row); err != nil || !wanted {
		c.clear(e.Row)
		return err
	}
	invocation := Invocation{
		ID: e.Row.Text(c.ID), Key: value.Text(e.Record.Key), Time: time.UnixMicro(e.Time).UTC(), Watermark: TimeOrZero(e.Watermark),
		Offset: int64(e.Record.Offset), Row: e.Row, Inputs: c.Inputs, Outputs: c.Outputs, Topics: c.Topics,
	}
	if c.Function.Keyed {
		var err error
		if invocation.Key, invocation.State, err = e.Kept.State(e, c); err != nil {
			return err
		}
	}
	c.clear(e.Row)
	effects, err := invocation.Call(c.Function)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	for _, slot := range c.Outputs {
		if !slot.Type.Optional && !e.Row.Has(slot) {
			return fmt.Errorf("%s: output %q was not set", c.Name, slot.Name)
		}
	}
	if len(effects.Outputs) > 0 {
		e.Calls = append(e.Calls, Called{c, c.As, effects.Outputs})
	}
	if effects.State != nil {
		return e.Kept.Keep(e, c, effects.State)
	}
	return nil
}

func (c *Call) clear(row *value.Row) {
	for _, slot := range c.Outputs {
		row.Clear(slot)
	}
}

// Never is the time of an event with an unknown time.
const Never = math.MinInt64

// TimeOrZero converts an event time to a time.Time. It returns the zero time for Never.
func TimeOrZero(micros int64) time.Time {
	if micros == Never {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
