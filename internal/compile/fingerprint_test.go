package compile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/udf"
)

// printedPipeline has two inputs, a feature, a group and a keyed function.
func printedPipeline() lang.Pipeline {
	fields := []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}, {Name: "call", Type: "string"}}
	return lang.Pipeline{
		Name:   "p",
		Inputs: []lang.Input{{Topic: "a", Key: "k", Fields: fields}, {Topic: "b", Key: "k", Fields: fields}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "past", Value: "n * 2.0", Windows: []string{"60s"}, Aggregates: []string{"sum"}}, {Name: "seen", Last: 3, Aggregates: []string{"count"}}}},
			&steps.Call{Go: "visits"},
			&steps.Emit{Topic: "out", Names: []string{"n", "past.sum_60s"}},
		},
		Code: lang.Code{Functions: map[string]udf.Function{"visits": {Version: 1, Keyed: true, Event: func(*udf.Context) error { return nil }}}},
	}
}

// TestFingerprintsChangeWithWhatChanges changes a pipeline: how a thing is said changes
// nothing, what decides outputs alone changes their hash, and what decides stored state
// changes that of its part too.
func TestFingerprintsChangeWithWhatChanges(t *testing.T) {
	of := func(change func(*lang.Pipeline)) compile.Planned {
		p := printedPipeline()
		change(&p)
		plan, err := compile.PlanOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	same := of(func(*lang.Pipeline) {})
	feature := func(p *lang.Pipeline) *steps.Feature { return &p.Steps[0].(*steps.Features).List[0] }
	const state, outputs, nothing = "state", "outputs", "nothing"
	for name, c := range map[string]struct {
		affects string
		change  func(*lang.Pipeline)
	}{
		"partitions of an input":  {nothing, func(p *lang.Pipeline) { p.Inputs[0].Partitions = 8 }},
		"white space":             {nothing, func(p *lang.Pipeline) { feature(p).Value = "n*2.0" }},
		"a default written out":   {nothing, func(p *lang.Pipeline) { feature(p).Max, feature(p).Overflow = 65536, "pane" }},
		"repartition written out": {nothing, func(p *lang.Pipeline) { p.Inputs[1].Repartition = 4 }},
		"an empty list": {nothing, func(p *lang.Pipeline) {
			p.Models, p.Constants, p.Inputs[0].Dedupe = []lang.Model{}, []spec.Constant{}, nil
		}},
		"commits, lag and budget": {nothing, func(p *lang.Pipeline) { p.Commit.Size, p.Lag.Warn, p.Budget.P99 = 10, time.Minute, time.Second }},
		"a function of no step":   {nothing, func(p *lang.Pipeline) { p.Code.Functions["other"] = udf.Function{Version: 7} }},
		"a newer function": {outputs, func(p *lang.Pipeline) {
			f := p.Code.Functions["visits"]
			f.Version = 2
			p.Code.Functions["visits"] = f
		}},
		"another emit":              {outputs, func(p *lang.Pipeline) { p.Steps[2].(*steps.Emit).Names = []string{"n"} }},
		"the sum of nothing":        {outputs, func(p *lang.Pipeline) { one := 1.0; feature(p).Empty = &one }},
		"lateness":                  {outputs, func(p *lang.Pipeline) { p.Inputs[0].Time.Lateness = time.Second }},
		"another repartitioning":    {outputs, func(p *lang.Pipeline) { p.Inputs[0].Repartition = 8 }},
		"another value":             {state, func(p *lang.Pipeline) { feature(p).Value = "n * 3.0" }},
		"another window":            {state, func(p *lang.Pipeline) { feature(p).Windows[0] = "61s"; p.Steps[2].(*steps.Emit).Names = []string{"n"} }},
		"features in another order": {state, func(p *lang.Pipeline) { slices.Reverse(p.Steps[0].(*steps.Features).List) }},
		"another key":               {state, func(p *lang.Pipeline) { p.Inputs[0].Key, p.Inputs[1].Key = "call", "call" }},
	} {
		got := of(c.change)
		affects := nothing
		switch {
		case !slices.Equal(got.Fingerprint.State, same.Fingerprint.State):
			affects = state
		case got.Fingerprint.Outputs != same.Fingerprint.Outputs:
			affects = outputs
		}
		if affects != c.affects || affects == state && got.Fingerprint.Outputs == same.Fingerprint.Outputs || affects == nothing && got.Text != same.Text {
			t.Errorf("%s: it affects %s, want %s:\n%s", name, affects, c.affects, got.Text)
		}
	}
}
