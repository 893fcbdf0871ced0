package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Write writes the report as text or as one JSON object.
func (r *PlacementReport) Write(out io.Writer, asJSON bool) error {
	if asJSON {
		return r.writeJSON(out)
	}
	c := r.Options
	fmt.Fprintf(out, "pipeline %s, model %s: %s\n", r.Pipeline, r.Model, r.Kind)
	fmt.Fprintf(out, "%d events/s for %v, after %v that do not count, medians of %d rounds: %s\n\n", c.Rate, c.Duration, c.Settle(), c.Rounds, r.From)
	fmt.Fprintf(out, "%-12s%22s%22s\n%-12s%11s%11s%11s%11s\n", "", "inside", "endpoint", "ms", "p50", "p99", "p50", "p99")
	for i, in := range append(r.Inside.Phases, r.Inside.Sum) {
		at := append(r.Endpoint.Phases, r.Endpoint.Sum)[i]
		fmt.Fprintf(out, "%-12s%11.3f%11.3f%11.3f%11.3f\n", in.Name, toMilliseconds(in.P50), toMilliseconds(in.P99), toMilliseconds(at.P50), toMilliseconds(at.P99))
	}
	row := func(name string, of func(*Placement) time.Duration, note string) {
		fmt.Fprintf(out, "%-12s%22.3f%22.3f  %s\n", name, toMilliseconds(of(&r.Inside)), toMilliseconds(of(&r.Endpoint)), note)
	}
	row("sum of p99s", (*Placement).Bound, "pessimistic: as if one event were slow in every phase")
	if c.Budget > 0 {
		row("headroom", func(p *Placement) time.Duration { return c.Budget - p.Bound() }, fmt.Sprintf("of %v, by the sum of p99s", c.Budget))
		row("  measured", func(p *Placement) time.Duration { return c.Budget - p.Sum.P99 }, "by the p99 of the sum")
	}
	fmt.Fprintf(out, "%-12s%22s%22s  in each instance", "memory", megabytes(r.Inside.Memory), megabytes(r.Endpoint.Memory))
	if r.Endpoint.Endpoint > 0 {
		fmt.Fprintf(out, ", and %s of the endpoint", megabytes(r.Endpoint.Endpoint))
	}
	fmt.Fprintln(out)
	for _, side := range []struct {
		name string
		*Placement
	}{{"inside", &r.Inside}, {"endpoint", &r.Endpoint}} {
		if side.Lost > 0 {
			fmt.Fprintf(out, "%s: %d of %d events became dead letters, the first: %s\n", side.name, side.Lost, side.Events, side.LostWhy)
		}
	}
	_, err := fmt.Fprintf(out, "\n%s: %s\n", r.Choice, r.Reason)
	return err
}

func megabytes(bytes int64) string {
	if bytes == 0 {
		return "not known"
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
}

// toMilliseconds converts a duration to milliseconds, rounded to a microsecond.
func toMilliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// phaseJSON is the JSON form of a Phase.
type phaseJSON struct {
	Name string   `json:"name"`
	P50  *float64 `json:"p50_ms,omitempty"`
	P99  float64  `json:"p99_ms"`
}

func phasesJSON(phases []Phase) (list []phaseJSON) {
	for _, h := range phases {
		j := phaseJSON{Name: h.Name, P99: toMilliseconds(h.P99)}
		if p50 := toMilliseconds(h.P50); p50 > 0 {
			j.P50 = &p50
		}
		list = append(list, j)
	}
	return list
}

// sumsJSON holds phases, their sum, and the remainder of a budget.
type sumsJSON struct {
	Phases           []phaseJSON `json:"phases"`
	Sum              *phaseJSON  `json:"sum,omitempty"`
	Bound            float64     `json:"sum_of_p99s_ms"`
	Budget           *float64    `json:"budget_ms,omitempty"`
	Headroom         *float64    `json:"headroom_ms,omitempty"`
	HeadroomMeasured *float64    `json:"headroom_measured_ms,omitempty"`
}

// within sets the remainders of a budget after the bound and the measured sum; a measured sum of 0
// is unknown.
func (s *sumsJSON) within(budget, bound, measured time.Duration) {
	if budget == 0 {
		return
	}
	whole, left := toMilliseconds(budget), toMilliseconds(budget-bound)
	s.Budget, s.Headroom = &whole, &left
	if measured > 0 {
		left := toMilliseconds(budget - measured)
		s.HeadroomMeasured = &left
	}
}

// PlacementJSON is the JSON form of a Placement.
type PlacementJSON struct {
	sumsJSON
	Events   int64  `json:"events"`
	Measured int64  `json:"events_measured"`
	Unended  int64  `json:"events_behind"`
	Lost     int64  `json:"dead_letters"`
	LostWhy  string `json:"dead_letter,omitempty"`
	Memory   int64  `json:"instance_bytes,omitempty"`
	Endpoint int64  `json:"endpoint_bytes,omitempty"`
}

func (r *PlacementReport) writeJSON(out io.Writer) error {
	c := r.Options
	of := func(p *Placement) (j PlacementJSON) {
		sum := phasesJSON([]Phase{p.Sum})[0]
		j.Phases, j.Sum, j.Bound = phasesJSON(p.Phases), &sum, toMilliseconds(p.Bound())
		j.within(c.Budget, p.Bound(), p.Sum.P99)
		j.Events, j.Measured, j.Unended, j.Lost, j.LostWhy = p.Events, p.Measured, p.Unended, p.Lost, p.LostWhy
		j.Memory, j.Endpoint = p.Memory, p.Endpoint
		return j
	}
	return json.NewEncoder(out).Encode(struct {
		Pipeline string        `json:"pipeline"`
		Model    string        `json:"model"`
		Events   string        `json:"load"`
		Rate     int           `json:"events_per_second"`
		Inside   PlacementJSON `json:"inside"`
		Endpoint PlacementJSON `json:"endpoint"`
		Choice   Choice        `json:"placement"`
		Reason   string        `json:"reason"`
	}{r.Pipeline, r.Model, r.From, c.Rate, of(&r.Inside), of(&r.Endpoint), r.Choice, r.Reason})
}

// WriteSum writes the sum of phases that were given rather than measured. It returns an error if
// the sum exceeds the budget; a budget of 0 is no limit.
func WriteSum(out io.Writer, phases []Phase, budget time.Duration, asJSON bool) error {
	bound := Bound(phases)
	if asJSON {
		sums := sumsJSON{Phases: phasesJSON(phases), Bound: toMilliseconds(bound)}
		sums.within(budget, bound, 0)
		if err := json.NewEncoder(out).Encode(sums); err != nil {
			return err
		}
	} else {
		for _, h := range append(phases, Phase{Name: "sum of p99s", P99: bound}) {
			fmt.Fprintf(out, "%-13s%v\n", h.Name, h.P99)
		}
		if budget > 0 {
			fmt.Fprintf(out, "%-13s%v of %v\n", "headroom", budget-bound, budget)
		}
	}
	if budget > 0 && bound > budget {
		return fmt.Errorf("the phases take %v more than the budget", bound-budget)
	}
	return nil
}
