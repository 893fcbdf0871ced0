package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Budget is how long the events of a pipeline may take: in all, and in each phase.
// The zero value is none.
type Budget struct {
	P99    time.Duration             // 99 of 100 events are to take less
	Phases [phaseCount]time.Duration // shares of it; together no more than it
}

// NewBudget returns a budget of which some phases have shares, 0 or less is none.
// The others of the pipeline's phases have equal parts of what these leave.
func NewBudget(p99 time.Duration, shares [phaseCount]time.Duration, phases []Phase) (Budget, error) {
	var sum time.Duration
	var without []string
	for _, phase := range phases {
		if sum += max(shares[phase], 0); shares[phase] <= 0 {
			without = append(without, phase.String())
		}
	}
	left := p99 - sum
	switch {
	case left < 0:
		return Budget{}, fmt.Errorf("the shares of the phases are %v together, more than the p99, %v", sum, p99)
	case left == 0 && len(without) > 0 && p99 > 0:
		return Budget{}, fmt.Errorf("the shares of the phases leave nothing of the p99, %v, for %s", p99, strings.Join(without, ", "))
	}
	for _, phase := range phases {
		if shares[phase] <= 0 {
			shares[phase] = left / time.Duration(len(without))
		}
	}
	return Budget{p99, shares}, nil
}

// culprit is the phase that took the most beyond its share: there is one where an
// event took longer than the budget.
func (b *Budget) culprit(took [phaseCount]time.Duration) Phase {
	worst := Queue
	for _, phase := range Phases {
		if took[phase]-b.Phases[phase] > took[worst]-b.Phases[worst] {
			worst = phase
		}
	}
	return worst
}

// Spent is what the events of a pipeline took of a budget, since the process
// began.
type Spent struct {
	Budget
	Events uint64
	Own    uint64       // of these, those of cases of a route with limits of their own, with which the budget is not compared
	Whole  Took         // of each event together, from its append until its outputs were durable
	By     []PhaseSpent // by phase, in order
}

// Took are quantiles of durations.
type Took struct{ P50, P99 time.Duration }

// PhaseSpent is what events took in one phase.
type PhaseSpent struct {
	Phase
	Took
	Share  time.Duration
	Missed uint64 // events over the budget of which this phase is the culprit
}

// Missed returns how many events took longer than the budget.
func (s *Spent) Missed() (n uint64) {
	for _, h := range s.By {
		n += h.Missed
	}
	return n
}

// Bound is the sum of the p99 of the phases: what an event would take that is slow
// in each. Phases are rarely slow together, so it is pessimistic.
func (s *Spent) Bound() (sum time.Duration) {
	for _, h := range s.By {
		sum += h.P99
	}
	return sum
}

// Worst returns the phase that is the culprit of the most events; none where no
// event took too long.
func (s *Spent) Worst() (worst PhaseSpent, ok bool) {
	if s.Missed() == 0 {
		return PhaseSpent{}, false
	}
	return slices.MaxFunc(s.By, func(a, b PhaseSpent) int { return int(min(a.Missed, 1<<40)) - int(min(b.Missed, 1<<40)) }), true
}

// SetBudget compares every event with a budget. It is called before the task
// runs.
func (m *Metrics) SetBudget(b Budget) {
	for _, s := range m.members {
		s.Budget = b
	}
}

// Whole adds up the times of events from their append until their outputs were
// durable.
func (m *Metrics) Whole() *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(&s.Latency.whole)
	}
	return &sum
}

// Spent returns what the events took.
func (m *Metrics) Spent() Spent {
	took := func(s *Snapshot) Took { return Took{s.Quantile(0.5), s.Quantile(0.99)} }
	whole := m.Whole()
	spent := Spent{Budget: m.members[0].Budget, Events: whole.Count, Whole: took(whole)}
	for i := range m.cases {
		if limit, _ := m.CaseMissed(i); limit > 0 {
			spent.Own += m.Case(i).Count
		}
	}
	for _, phase := range m.Phases() {
		h := PhaseSpent{Phase: phase, Took: took(m.Phase(phase)), Share: spent.Phases[phase]}
		for _, s := range m.members {
			h.Missed += s.Missed[phase].Load()
		}
		spent.By = append(spent.By, h)
	}
	return spent
}
