package compile

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/observe"
)

// budgetOf returns the time budget of an event.
func budgetOf(p *lang.Pipeline, found *lang.Findings) observe.Budget {
	b := &p.Budget
	shares := [...]time.Duration{observe.Queue: b.Queue, observe.Order: b.Order, observe.Feature: b.Feature, observe.Model: b.Model, observe.Emit: b.Emit, observe.Commit: b.Commit}
	for i, share := range shares {
		if share < 0 {
			found.Fail("budget."+observe.Phase(i).String(), "%v is below 0", share)
		}
	}
	if b.P99 < 0 {
		found.Fail("budget.p99", "%v is below 0", b.P99)
	}
	if b.Order != 0 && !inTurns(p) {
		found.Fail("budget.order", "no event of the pipeline waits for other partitions")
		found.Hint("remove it: events wait for other partitions only with order: time and with repartition or inputs")
	}
	budget, err := observe.NewBudget(b.P99, shares, observe.PhasesOf(inTurns(p)))
	if err != nil {
		found.Fail("budget", "%v", err)
		found.Hint("raise p99, or lower the shares")
	}
	if inTurns(p) && b.P99 > 0 {
		waits(p, found)
	}
	return budget
}

// waits warns of inputs that may wait for other partitions longer than the budget allows.
func waits(p *lang.Pipeline, found *lang.Findings) {
	for path, in := range p.EachInput() {
		idle, wait := idleOf(in.Time), in.Time.Wait
		switch {
		case idle == 0:
			found.Warnings = append(found.Warnings, fmt.Sprintf("%s.time.idle: with never, events wait without limit for a partition that has no event, and budget.p99 is %v: write how long events wait for such a partition", path, p.Budget.P99))
		case idle+wait+p.Commit.Interval > p.Budget.P99:
			found.Warnings = append(found.Warnings, fmt.Sprintf("%s.time.idle: events wait up to %v (idle), %v (wait) and a commit for a partition that has no event, and budget.p99 is %v. With one event a second in each partition, each event waits so long: lower idle, or give the topic one partition", path, idle, wait, p.Budget.P99))
		}
	}
}

// inTurns reports whether events of several source partitions are read in the order of their times.
func inTurns(p *lang.Pipeline) bool {
	inputs := copied(p)
	return len(inputs) > 0 && !inputs[0].Time.ByArrival()
}
