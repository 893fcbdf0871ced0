package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// writesRows reports whether the pipeline itself writes the table of a lookup. Then
// the events of a key take turns: each finds the row that the one before wrote.
func (c *compiler) writesRows(path string, s *lang.Lookup, own bool) bool {
	written := false
	refuse := func(what, format string, args ...any) {
		written = true
		c.Fail(path+".table", "the pipeline writes %q itself, %s: the lookup would miss rows of events in flight", s.Table, what)
		c.Hint(fmt.Sprintf(format, args...))
	}
	var walk func(steps []lang.Step)
	walk = func(steps []lang.Step) {
		for o := range lang.EachStep(steps) {
			effect := o.Effect()
			for _, write := range effect.Writes {
				switch {
				case write.Topic != s.Table:
				case write.By != "":
					refuse("by "+write.By, "%s", write.Instead)
				default:
					written = true
					if write.Key != "" && !c.inputKeyed(write.Key) {
						refuse("by key "+write.Key, "leave key out of the emit: its rows are then by the input's key")
					}
				}
			}
			walk(effect.OnFailure)
		}
	}
	walk(c.Pipeline.Steps)
	if c.Pipeline.Input.Time.LateTo == s.Table && s.Table != "" {
		refuse("by late events", "give late another topic")
	}
	if written && !own {
		c.Fail(path+".key", "the pipeline writes %q itself, by the input's key, and finds its rows by %s: the lookup would miss rows of events in flight", s.Table, s.Key)
		c.Hint("find them by the input's key, or have another pipeline write them")
	}
	if written && c.ownRows == "" {
		c.ownRows = path + ".table"
	}
	return written
}

// inputKeyed reports whether a name is the key of all inputs.
func (c *compiler) inputKeyed(name string) bool {
	inputs := c.Pipeline.Inputs
	if len(inputs) == 0 {
		inputs = []lang.Input{c.Pipeline.Input}
	}
	return !slices.ContainsFunc(inputs, func(in lang.Input) bool { return in.Key != name })
}

// ownTables has the events of a key take turns where they find rows that the pipeline
// writes, and its emits make these rows.
func (c *compiler) ownTables() {
	if c.ownRows == "" {
		return
	}
	if c.queues() && !c.plan.Ordered {
		c.Fail(c.ownRows, "the pipeline writes its rows, and events of a key may be queued: the lookup would miss rows of events in flight")
		c.Hint("write ordered: true at the step that queues, or remove what queues: async, and call of the model")
	}
	c.plan.Ordered, c.plan.Feedback = true, true
	var keep func(stages []operator.Placed)
	keep = func(stages []operator.Placed) {
		for i := range stages {
			if e, ok := stages[i].Operator.(*operator.Emit); ok {
				e.Table = 1 + slices.IndexFunc(c.plan.Tables, func(t table.Spec) bool { return t.Written && t.Topic == c.plan.Outputs[e.Output] })
			}
			keep(stages[i].OnFailure())
		}
	}
	keep(c.plan.Stages)
}
