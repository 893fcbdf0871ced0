package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// ownTables has the events of a key take turns where they find rows that the pipeline
// writes, and its emits make these rows.
func (c *compiler) ownTables() {
	at := slices.IndexFunc(c.Nodes, func(n lang.Node) bool { return n.Place().OwnTable != "" })
	if at < 0 {
		return
	}
	if c.queues() && !c.plan.Ordered {
		c.Fail(c.Nodes[at].Place().OwnTable, "the pipeline writes its rows, and events of a key may be queued: the lookup would miss rows of events in flight")
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
