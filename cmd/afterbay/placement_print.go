package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/afterbay/afterbay/internal/lab/bench"
)

// print prints the report, for people or as JSON.
func (p *placementCommand) print(out io.Writer, r *bench.PlacementReport) error {
	if p.JSON {
		return p.printJSON(out, r)
	}
	c := r.Options
	fmt.Fprintf(out, "pipeline %s, model %s: %s\n", r.Pipeline, r.Model, r.Kind)
	fmt.Fprintf(out, "%d events/s for %v, after %v that do not count, medians of %d rounds: %s\n\n", c.Rate, c.Duration, c.Settle(), c.Rounds, r.From)
	fmt.Fprintf(out, "%-12s%22s%22s\n%-12s%11s%11s%11s%11s\n", "", "inside", "endpoint", "ms", "p50", "p99", "p50", "p99")
	for i, in := range append(r.Inside.Phases, r.Inside.Sum) {
		at := append(r.Endpoint.Phases, r.Endpoint.Sum)[i]
		fmt.Fprintf(out, "%-12s%11.3f%11.3f%11.3f%11.3f\n", in.Name, toMilliseconds(in.P50), toMilliseconds(in.P99), toMilliseconds(at.P50), toMilliseconds(at.P99))
	}
	row := func(name string, of func(*bench.Placement) time.Duration, note string) {
		fmt.Fprintf(out, "%-12s%22.3f%22.3f  %s\n", name, toMilliseconds(of(&r.Inside)), toMilliseconds(of(&r.Endpoint)), note)
	}
	row("sum of p99s", (*bench.Placement).Bound, "pessimistic: as if one event were slow in every phase")
	if c.Budget > 0 {
		row("headroom", func(p *bench.Placement) time.Duration { return c.Budget - p.Bound() }, fmt.Sprintf("of %v, by the sum of p99s", c.Budget))
		row("  measured", func(p *bench.Placement) time.Duration { return c.Budget - p.Sum.P99 }, "by the p99 of the sum")
	}
	fmt.Fprintf(out, "%-12s%22s%22s  in each instance", "memory", megabytes(r.Inside.Memory), megabytes(r.Endpoint.Memory))
	if r.Endpoint.Endpoint > 0 {
		fmt.Fprintf(out, ", and %s of the endpoint", megabytes(r.Endpoint.Endpoint))
	}
	fmt.Fprintln(out)
	for _, side := range []struct {
		name string
		*bench.Placement
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

// toMilliseconds is to the microsecond.
func toMilliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// phaseJSON is a bench.Phase as JSON.
type phaseJSON struct {
	Name string   `json:"name"`
	P50  *float64 `json:"p50_ms,omitempty"`
	P99  float64  `json:"p99_ms"`
}

func phasesJSON(phases []bench.Phase) (list []phaseJSON) {
	for _, h := range phases {
		j := phaseJSON{Name: h.Name, P99: toMilliseconds(h.P99)}
		if p50 := toMilliseconds(h.P50); p50 > 0 {
			j.P50 = &p50
		}
		list = append(list, j)
	}
	return list
}

// sumsJSON are phases, their sum, and the rest of a budget.
type sumsJSON struct {
	Phases           []phaseJSON `json:"phases"`
	Sum              *phaseJSON  `json:"sum,omitempty"`
	Bound            float64     `json:"sum_of_p99s_ms"`
	Budget           *float64    `json:"budget_ms,omitempty"`
	Headroom         *float64    `json:"headroom_ms,omitempty"`
	HeadroomMeasured *float64    `json:"headroom_measured_ms,omitempty"`
}

// within notes what a bound and a measured sum, 0 for none, leave of a budget.
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

// placementJSON is a bench.Placement as JSON.
type placementJSON struct {
	sumsJSON
	Events   int64  `json:"events"`
	Measured int64  `json:"events_measured"`
	Unended  int64  `json:"events_behind"`
	Lost     int64  `json:"dead_letters"`
	LostWhy  string `json:"dead_letter,omitempty"`
	Memory   int64  `json:"instance_bytes,omitempty"`
	Endpoint int64  `json:"endpoint_bytes,omitempty"`
}

func (c *placementCommand) printJSON(out io.Writer, r *bench.PlacementReport) error {
	of := func(p *bench.Placement) (j placementJSON) {
		sum := phasesJSON([]bench.Phase{p.Sum})[0]
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
		Inside   placementJSON `json:"inside"`
		Endpoint placementJSON `json:"endpoint"`
		Choice   bench.Choice  `json:"placement"`
		Reason   string        `json:"reason"`
	}{r.Pipeline, r.Model, r.From, c.Rate, of(&r.Inside), of(&r.Endpoint), r.Choice, r.Reason})
}

// sum prints what phases come to that were not measured.
func (c *placementCommand) sum(a *app) error {
	phases, err := bench.ParsePhases(c.Phases)
	if err != nil {
		return usage("--phases: %w", err)
	}
	bound := bench.Bound(phases)
	if c.JSON {
		sums := sumsJSON{Phases: phasesJSON(phases), Bound: toMilliseconds(bound)}
		sums.within(c.Budget, bound, 0)
		if err := json.NewEncoder(a.stdout).Encode(sums); err != nil {
			return err
		}
	} else {
		for _, h := range append(phases, bench.Phase{Name: "sum of p99s", P99: bound}) {
			fmt.Fprintf(a.stdout, "%-13s%v\n", h.Name, h.P99)
		}
		if c.Budget > 0 {
			fmt.Fprintf(a.stdout, "%-13s%v of %v\n", "headroom", c.Budget-bound, c.Budget)
		}
	}
	if c.Budget > 0 && bound > c.Budget {
		return fmt.Errorf("the phases take %v more than the budget", bound-c.Budget)
	}
	return nil
}
