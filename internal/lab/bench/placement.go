// Package bench measures pipelines. By the time that events spend in each phase it says
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

// Heavy is the memory of a model, in bytes, from which on instances should share
// one that is served where either placement would do.
const Heavy = 1 << 30

const (
	lostMost    = 0.001 // share of events that an endpoint may lose beyond what is lost without it
	fasterShare = 0.8   // of the time inside that an endpoint takes at most where it is faster for sure
)

// Phase is what events spent in a part of their way.
type Phase struct {
	Name     string
	P50, P99 time.Duration
}

// Bound is the sum of the p99 of phases: what an event would take that is slow in
// each. Phases are rarely slow together, so it is pessimistic.
func Bound(phases []Phase) (sum time.Duration) {
	for _, h := range phases {
		sum += h.P99
	}
	return sum
}

// ParsePhases reads the p99 of phases, such as feature=8ms,model=22ms,emit=4ms:
// each of observe.PhasesOf(false) at most once, and one at least.
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
			return nil, fmt.Errorf("%q is no phase: there are %s, as in model=22ms", name, strings.Join(known, ", "))
		case slices.ContainsFunc(phases, func(h Phase) bool { return h.Name == name }):
			return nil, fmt.Errorf("phase %s is there twice", name)
		case err != nil || took < 0:
			return nil, fmt.Errorf("phase %s takes %q: use a time such as 22ms", name, value)
		}
		phases = append(phases, Phase{Name: name, P99: took})
	}
	return phases, nil
}

// Placement is what was measured of a pipeline with a model in one place.
type Placement struct {
	Phases   []Phase
	Sum      Phase // of the phases of each event together
	Events   int64 // that were due
	Measured int64 // those behind Phases and Sum: without the ones of the beginning, which do not count
	Unended  int64 // that were not committed in twice the time
	Lost     int64 // that became dead letters
	LostWhy  string
	Memory   int64 // bytes of an instance, with the processes it started; 0 is not known
	Endpoint int64 // bytes of the endpoint, which instances share; 0 is none, or not known
}

// Median returns what several measurements of one placement come to: the median of
// each time and of memory, and all events. There is one at least.
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

// median returns the middle one or, of an even number, the upper of the two.
func median[T cmp.Ordered](rounds []Placement, of func(*Placement) T) T {
	var list []T
	for i := range rounds {
		list = append(list, of(&rounds[i]))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Bound is that of the phases.
func (p *Placement) Bound() time.Duration { return Bound(p.Phases) }

// fit is how well a placement keeps within a budget.
type fit int

const (
	behind   fit = iota // events pile up
	over                // the p99 is beyond the budget
	measured            // it is within, as measured
	bounded             // the bound is within, too
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

// describe says how a placement fits.
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

// slowest names the phase with the most of the bound.
func (p *Placement) slowest() string {
	return slices.MaxFunc(p.Phases, func(a, b Phase) int { return int(a.P99 - b.P99) }).Name
}

// round cuts a time for people: to three digits, or so.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Choice is where a model should run.
type Choice string

// The choices.
const (
	Embed   Choice = "embed"
	Serve   Choice = "serve"
	Neither Choice = "neither"
)

// ErrNeither says that neither placement keeps the budget, or keeps up.
var ErrNeither = errors.New("the model would do neither inside nor behind an endpoint")

// Decide compares a model inside with the same behind an endpoint, under a budget
// for the p99 of an event; 0 is none. It returns the choice and, for people, its
// reason. Where both would do the model is embedded, unless it is Heavy: what is
// inside cannot be down. Without a budget a clearly faster endpoint is preferred.
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
		return Serve, fmt.Sprintf("both would do, and inside the model takes %.1f GB of each instance", float64(weight)/1e9)
	case budget == 0 && float64(endpoint.Sum.P99) < fasterShare*float64(inside.Sum.P99):
		return Serve, fmt.Sprintf("the p99 of an event is %v, where it is %v inside", round(endpoint.Sum.P99), round(inside.Sum.P99))
	}
	return Embed, fmt.Sprintf("both would do: the p99 of an event is %v inside and %v behind the endpoint, and what is inside cannot be down", round(inside.Sum.P99), round(endpoint.Sum.P99))
}

func (p *Placement) lost() float64 { return float64(p.Lost) / float64(max(p.Events, 1)) }
