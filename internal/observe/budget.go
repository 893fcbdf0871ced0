package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Budget limits the time that events of a pipeline may take, in total and in each phase. The zero
// value is no budget.
type Budget struct {
	P99    time.Duration             // limit for 99 of 100 events
	Phases [phaseCount]time.Duration // share of each phase; their sum is at most P99
}

// NewBudget returns a budget with shares for some phases; a share of 0 or less is not set. The
// remaining time is divided equally among the other phases of the pipeline.
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

// culprit returns the phase that exceeded its share the most. There is always one for an event that
// took longer than the budget.
func (b *Budget) culprit(took [phaseCount]time.Duration) Phase {
	worst := Queue
	for _, phase := range Phases {
		if took[phase]-b.Phases[phase] > took[worst]-b.Phases[worst] {
			worst = phase
		}
	}
	return worst
}

// Spent is how much of a budget the events of a pipeline used since the process started.
type Spent struct {
	Budget
	Events uint64
	Own    uint64       // events in route cases with their own limits; not compared with the budget
	Whole  Took         // of whole events, from the append until the outputs were durable
	By     []PhaseSpent // by phase, in order
}

// Took holds quantiles of durations.
type Took struct{ P50, P99 time.Duration }

// PhaseSpent is the time that events took in one phase.
type PhaseSpent struct {
	Phase
	Took
	Share  time.Duration
	Missed uint64 // events over the budget with this phase as the culprit
}

// Missed returns the number of events that took longer than the budget.
func (s *Spent) Missed() (n uint64) {
	for _, h := range s.By {
		n += h.Missed
	}
	return n
}

// Bound returns the sum of the p99 of the phases: the time of an event that is slow in every phase.
// Phases are rarely slow at the same time, so the sum is pessimistic.
func (s *Spent) Bound() (sum time.Duration) {
	for _, h := range s.By {
		sum += h.P99
	}
	return sum
}

// Worst returns the phase that was the culprit most often. ok is false if no event took too long.
func (s *Spent) Worst() (worst PhaseSpent, ok bool) {
	if s.Missed() == 0 {
		return PhaseSpent{}, false
	}
	return slices.MaxFunc(s.By, func(a, b PhaseSpent) int { return int(min(a.Missed, 1<<40)) - int(min(b.Missed, 1<<40)) }), true
}

// SetBudget sets the budget to compare every event with. Call it before the task runs.
func (m *Metrics) SetBudget(b Budget) {
	for _, s := range m.members {
		s.Budget = b
	}
}

// Whole returns the distribution of the time of events, from their append until their outputs were
// durable.
func (m *Metrics) Whole() *Snapshot {
	var sum Snapshot
	for _, s := range m.members {
		sum.Add(&s.Latency.whole)
	}
	return &sum
}

// Spent returns how much of the budget the events used.
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
