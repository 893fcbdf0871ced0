package compile

import (
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/observe"
)

// budgetOf returns how long events may take.
func budgetOf(b lang.Budget, found *lang.Findings) observe.Budget {
	shares := [...]time.Duration{observe.Queue: b.Queue, observe.Feature: b.Feature, observe.Model: b.Model, observe.Emit: b.Emit, observe.Commit: b.Commit}
	for i, share := range shares {
		if share < 0 {
			found.Fail("budget."+observe.Phase(i).String(), "%v is below 0", share)
		}
	}
	if b.P99 < 0 {
		found.Fail("budget.p99", "%v is below 0", b.P99)
	}
	budget, err := observe.NewBudget(b.P99, shares)
	if err != nil {
		found.Fail("budget", "%v", err)
		found.Hint("raise p99, or lower the shares")
	}
	return budget
}
