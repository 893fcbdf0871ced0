package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestHeadroomIsBudgetLessTheSumOfStages(t *testing.T) {
	for stages, want := range map[string]time.Duration{
		"feature=8ms,model=22ms,emit=4ms":  16 * ms,
		"feature=8ms, model=35ms,emit=4ms": 3 * ms,
		"queue=1s":                         -950 * ms,
		"commit=0s":                        50 * ms,
	} {
		phases, err := ParsePhases(stages)
		if err != nil {
			t.Fatal(err)
		}
		if got := 50*ms - Bound(phases); got != want {
			t.Errorf("%s leaves %v, want %v", stages, got, want)
		}
	}
}

func TestPhasesThatMeanNothingAreRefused(t *testing.T) {
	for phases, part := range map[string]string{
		"":                    "is not a phase",
		"modle=1ms":           `"modle" is not a phase: there are queue, feature, model, emit, commit`,
		"model":               `takes ""`,
		"model=22":            `takes "22"`,
		"model=-1ms":          `takes "-1ms"`,
		"model=1ms,model=2ms": "twice",
		"model=1ms,":          "is not a phase",
	} {
		if _, err := ParsePhases(phases); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %s", phases, err, part)
		}
	}
}

// placementOf has a p99 of the model, another of the commit, and one of their sum.
func placementOf(model, commit, sum time.Duration) Placement {
	return Placement{
		Phases: []Phase{{Name: "model", P99: model}, {Name: "commit", P99: commit}}, Sum: Phase{P99: sum}, Events: 10_000, Memory: 50 << 20,
	}
}

func TestPlacementNamesTheChoiceAndWhy(t *testing.T) {
	with := func(p Placement, change func(*Placement)) Placement { change(&p); return p }
	fast, slow := placementOf(1*ms, 9*ms, 10*ms), placementOf(40*ms, 9*ms, 41*ms)
	for _, c := range []struct {
		name             string
		inside, endpoint Placement
		budget           time.Duration
		want             Choice
		reason           string
	}{
		{"both fit", fast, slow, 50 * ms, Embed, "both are fast enough"},
		{"both fit, inside slower", slow, fast, 50 * ms, Embed, "both are fast enough"},
		{"endpoint over", fast, slow, 30 * ms, Embed, "the p99 of an event is 41ms of the 30ms, most of it in model"},
		{"inside over", slow, fast, 30 * ms, Serve, "inside the p99 of an event is 41ms"},
		{"endpoint within by the measure alone", fast, slow, 45 * ms, Embed, "but the sum of p99s is 49ms"},
		{"both within by the measure alone", slow, slow, 45 * ms, Embed, "both are fast enough"},
		{"measure above the bound", fast, placementOf(1*ms, 1*ms, 60*ms), 50 * ms, Embed, "60ms of the 50ms"},
		{"on the budget", fast, fast, 10 * ms, Embed, "both are fast enough"},
		{"neither", slow, slow, 10 * ms, Neither, "inside the p99"},
		{"no budget", fast, slow, 0, Embed, "both are fast enough"},
		{"no budget, endpoint faster", slow, fast, 0, Serve, "is 10ms, where it is 41ms inside"},
		{"no budget, hardly faster", fast, placementOf(1*ms, 8*ms, 9*ms), 0, Embed, "both are fast enough"},
		{"endpoint behind", fast, with(fast, func(p *Placement) { p.Unended = 7 }), 0, Embed, "7 of 10000 events were not decided"},
		{"inside behind", with(fast, func(p *Placement) { p.Unended = 7 }), slow, 50 * ms, Serve, "falls behind"},
		{"both behind", with(fast, func(p *Placement) { p.Unended = 7 }), with(fast, func(p *Placement) { p.Unended = 9 }), 0, Neither, "9 of 10000"},
		{"heavy", with(fast, func(p *Placement) { p.Memory += Heavy }), fast, 50 * ms, Serve, "1.1 GB of each instance"},
		{"heavy, endpoint over", with(fast, func(p *Placement) { p.Memory += Heavy }), slow, 30 * ms, Embed, "41ms"},
		{"memory not known", with(fast, func(p *Placement) { p.Memory += Heavy }), with(fast, func(p *Placement) { p.Memory = 0 }), 0, Embed, "both are fast enough"},
		{"endpoint loses events", slow, with(fast, func(p *Placement) { p.Lost = 100 }), 0, Embed, "100 of 10000 events became dead letters"},
		{"both lose as many", fast, fast, 0, Embed, "both are fast enough"},
		{"endpoint loses, inside is over", slow, with(fast, func(p *Placement) { p.Lost = 100 }), 30 * ms, Neither, "dead letters"},
	} {
		got, reason := Decide(&c.inside, &c.endpoint, c.budget)
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, got, reason, c.want, c.reason)
		}
	}
}

func TestMedianIsOfEachTimeAlone(t *testing.T) {
	a, b, c := placementOf(1*ms, 20*ms, 30*ms), placementOf(2*ms, 90*ms, 95*ms), placementOf(50*ms, 10*ms, 20*ms)
	a.Lost, b.Unended, c.LostWhy, c.Memory, c.Endpoint, a.Measured, c.Measured = 3, 4, "why", 60<<20, 9, 5, 6
	got := Median([]Placement{a, b, c})
	want := placementOf(2*ms, 20*ms, 30*ms)
	want.Events, want.Lost, want.Unended, want.LostWhy, want.Measured = 30_000, 3, 4, "why", 11
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if a.Phases[0].P99 != 1*ms {
		t.Error("a round was changed")
	}
}

func Example() {
	phases, err := ParsePhases("feature=8ms,model=22ms,emit=4ms")
	if err != nil {
		panic(err)
	}
	fmt.Println(50*time.Millisecond - Bound(phases))
	// Output: 16ms
}
