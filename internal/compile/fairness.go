package compile

import (
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// fairness compiles whose turn it is among events that wait off the loop. What it
// reads is there before the steps: an event may wait at any of them.
func (c *compiler) fairness() {
	p, t, turns := c.Pipeline.Priority, c.Pipeline.Tenant, &c.plan.Fairness
	program := func(path, source string, kind value.Kind) *expression.Program {
		if source == "" {
			return nil
		}
		return c.Expr(path, source, kind)
	}
	turns.High = program("priority.high", p.High, value.Bool)
	turns.Low = program("priority.low", p.Low, value.Bool)
	turns.Tenant = program("tenant.by", t.By, value.String)
	if turns.TenantMax = t.Max; t.Max < 0 {
		c.Fail("tenant.max", "%d is negative", t.Max)
	}
	options := control.FairOptions{Age: p.Age}
	if p.Weights != nil {
		if len(p.Weights) != len(options.Weights) {
			c.Fail("priority.weights", "%d weights: want those of high, normal and low events", len(p.Weights))
			return
		}
		copy(options.Weights[:], p.Weights)
	}
	if _, err := options.Resolved(); err != nil {
		c.Fail("priority", "%v", err)
	}
	turns.Weights = options
}

// turns refuses turns where nothing waits for them.
func (c *compiler) turns() {
	if c.queues() || c.Ended {
		return
	}
	for _, word := range [][2]string{{"priority", c.Pipeline.Priority.High + c.Pipeline.Priority.Low}, {"tenant", c.Pipeline.Tenant.By}} {
		if word[1] != "" {
			c.Fail(word[0], "no event waits for its turn: nothing is scored off the loop")
			c.Hint("remove it, or write async: true at a score, or call: {} at its model")
		}
	}
}
