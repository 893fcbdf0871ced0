package compile

import (
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// bindTurns binds the expressions for priority and tenant of events that wait off the loop. They
// read only names that exist before the steps, because an event may wait at any step.
func bindTurns(c *lang.Scope) (turns operator.Fairness) {
	p, t := c.Pipeline.Priority, c.Pipeline.Tenant
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
			return turns
		}
		copy(options.Weights[:], p.Weights)
	}
	if _, err := options.Resolved(); err != nil {
		c.Fail("priority", "%v", err)
	}
	turns.Weights = options
	return turns
}
