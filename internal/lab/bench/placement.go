// Package bench measures pipelines. From the time that events spend in each phase, it also decides
// where a model should run: in the process of its pipeline, or behind an endpoint.
package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

// Heavy is a model's memory, in bytes. If both placements are suitable, instances should share a
// served model of this size or more.
const Heavy = 1 << 30

const (
	lostMost    = 0.001 // share of events that an endpoint may lose in addition to the losses without it
	fasterShare = 0.8   // an endpoint is clearly faster if it takes at most this share of the time inside
)

// Phase is the time that events spent in one phase.
type Phase struct {
	Name     string
	P50, P99 time.Duration
}

// Bound returns the sum of the p99 of phases: the time of an event that is slow in every phase.
// Phases are rarely slow at the same time, so the sum is pessimistic.
func Bound(phases []Phase) (sum time.Duration) {
	for _, h := range phases {
		sum += h.P99
	}
	return sum
}

// ParsePhases parses the p99 of phases, such as feature=8ms,model=22ms,emit=4ms. It accepts each
// phase of observe.PhasesOf(false) at most once, and requires at least one.
func ParsePhases(text string) ([]Phase, error) {
	var known []string
	for _, phase := range observe.PhasesOf(false) {
		known = append(known, phase.String())
	}
	var phases []Phase
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		took, err := time.ParseDuration(value)
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("%q is not a phase: there are %s, as in model=22ms", name, strings.Join(known, ", "))
		case slices.ContainsFunc(phases, func(h Phase) bool { return h.Name == name }):
			return nil, fmt.Errorf("phase %s occurs twice", name)
		case err != nil || took < 0:
			return nil, fmt.Errorf("phase %s takes %q: use a time such as 22ms", name, value)
		}
		phases = append(phases, Phase{Name: name, P99: took})
	}
	return phases, nil
}

// Placement is the measurement of a pipeline with its model in one place.
type Placement struct {
	Phases   []Phase
	Sum      Phase // time of whole events
	Events   int64 // events that were due
	Measured int64 // events in Phases and Sum; those at the start are not measured
	Unended  int64 // events not committed within twice the time
	Lost     int64 // events that became dead letters
	LostWhy  string
	Memory   int64 // bytes of an instance with the processes that it started; 0 is unknown
	Endpoint int64 // bytes of the endpoint, which instances share; 0 is no endpoint, or unknown
}

// Median combines several measurements of one placement: the median of each time and of memory, and
// the sum of all events. There must be at least one.
func Median(rounds []Placement) Placement {
	all := Placement{Phases: slices.Clone(rounds[0].Phases)}
	for i := range all.Phases {
		all.Phases[i] = medianPhase(rounds, func(p *Placement) Phase { return p.Phases[i] })
	}
	all.Sum = medianPhase(rounds, func(p *Placement) Phase { return p.Sum })
	all.Memory = median(rounds, func(p *Placement) int64 { return p.Memory })
	all.Endpoint = median(rounds, func(p *Placement) int64 { return p.Endpoint })
	for i := range rounds {
		r := &rounds[i]
		all.Events, all.Measured = all.Events+r.Events, all.Measured+r.Measured
		all.Unended, all.Lost = all.Unended+r.Unended, all.Lost+r.Lost
		all.LostWhy = cmp.Or(all.LostWhy, r.LostWhy)
	}
	return all
}

func medianPhase(rounds []Placement, of func(*Placement) Phase) Phase {
	return Phase{
		Name: of(&rounds[0]).Name,
		P50:  median(rounds, func(p *Placement) time.Duration { return of(p).P50 }),
		P99:  median(rounds, func(p *Placement) time.Duration { return of(p).P99 }),
	}
}

// median returns the middle value or, for an even number of values, the larger of the two.
func median[T cmp.Ordered](rounds []Placement, of func(*Placement) T) T {
	var list []T
	for i := range rounds {
		list = append(list, of(&rounds[i]))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Bound returns the sum of the p99 of the placement's phases.
func (p *Placement) Bound() time.Duration { return Bound(p.Phases) }

// fit is how well a placement meets a budget.
type fit int

const (
	behind   fit = iota // it falls behind: events pile up
	over                // the p99 exceeds the budget
	measured            // the measured p99 is within the budget
	bounded             // the bound is within the budget too
)

func (p *Placement) fit(budget time.Duration) fit {
	switch {
	case p.Unended > 0:
		return behind
	case budget == 0 || max(p.Sum.P99, p.Bound()) <= budget:
		return bounded
	case p.Sum.P99 <= budget:
		return measured
	}
	return over
}

// describe explains how well a placement meets a budget.
func (p *Placement) describe(budget time.Duration) string {
	switch p.fit(budget) {
	case behind:
		return fmt.Sprintf("it falls behind: %d of %d events were not decided in twice the time", p.Unended, p.Events)
	case over:
		return fmt.Sprintf("the p99 of an event is %v of the %v, most of it in %s", round(p.Sum.P99), budget, p.slowest())
	case measured:
		return fmt.Sprintf("the p99 of an event is %v of the %v, but the sum of p99s is %v", round(p.Sum.P99), budget, round(p.Bound()))
	}
	if budget == 0 {
		return fmt.Sprintf("the p99 of an event is %v", round(p.Sum.P99))
	}
	return fmt.Sprintf("even the sum of p99s, %v, is within %v", round(p.Bound()), budget)
}

// slowest returns the name of the phase with the largest p99.
func (p *Placement) slowest() string {
	return slices.MaxFunc(p.Phases, func(a, b Phase) int { return int(a.P99 - b.P99) }).Name
}

// round rounds a duration to about three digits.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Choice is where a model should run.
type Choice string

// Choices.
const (
	Embed   Choice = "embed"
	Serve   Choice = "serve"
	Neither Choice = "neither"
)

// ErrNeither means that neither placement meets the budget or keeps up with the events.
var ErrNeither = errors.New("the model is too slow both inside and behind an endpoint")

// Decide compares a model inside the process with the same model behind an endpoint, under a budget
// for the p99 of an event (0 is no budget). It returns the choice and its reason as text. If both
// are suitable, it chooses to embed the model, because an embedded model cannot be down, unless the
// model is Heavy. Without a budget it prefers an endpoint that is clearly faster.
func Decide(inside, endpoint *Placement, budget time.Duration) (Choice, string) {
	in, out := inside.fit(budget), endpoint.fit(budget)
	weight := inside.Memory - endpoint.Memory
	switch {
	case endpoint.lost() > inside.lost()+lostMost:
		reason := fmt.Sprintf("behind the endpoint %d of %d events became dead letters, inside %d", endpoint.Lost, endpoint.Events, inside.Lost)
		if in > over {
			return Embed, reason
		}
		return Neither, fmt.Sprintf("%s; inside %s", reason, inside.describe(budget))
	case in <= over && out <= over:
		return Neither, fmt.Sprintf("inside %s; behind the endpoint %s", inside.describe(budget), endpoint.describe(budget))
	case in > out:
		return Embed, fmt.Sprintf("inside %s; behind the endpoint %s", inside.describe(budget), endpoint.describe(budget))
	case out > in:
		return Serve, fmt.Sprintf("behind the endpoint %s; inside %s", endpoint.describe(budget), inside.describe(budget))
	case weight >= Heavy && endpoint.Memory > 0:
		return Serve, fmt.Sprintf("both are fast enough, and inside the model takes %.1f GB of each instance", float64(weight)/1e9)
	case budget == 0 && float64(endpoint.Sum.P99) < fasterShare*float64(inside.Sum.P99):
		return Serve, fmt.Sprintf("the p99 of an event is %v, where it is %v inside", round(endpoint.Sum.P99), round(inside.Sum.P99))
	}
	return Embed, fmt.Sprintf("both are fast enough: the p99 of an event is %v inside and %v behind the endpoint, and a model inside cannot be down", round(inside.Sum.P99), round(endpoint.Sum.P99))
}

func (p *Placement) lost() float64 { return float64(p.Lost) / float64(max(p.Events, 1)) }
