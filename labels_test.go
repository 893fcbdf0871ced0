package afterbay_test

import (
	"slices"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/udf"
)

// TestAStepThatIsAddedChangesNoLabel adds a case above the others of a route, an emit
// above others of its topic, and the call of a function above another of it: dead letters
// and the async queue store labels.
func TestAStepThatIsAddedChangesNoLabel(t *testing.T) {
	out := func(id string) []afterbay.Step {
		return []afterbay.Step{
			{Let: []afterbay.Binding{{Name: "size", Expr: `"s"`}}},
			{Emit: &afterbay.Emit{Topic: "out", ID: id, Names: []string{"card"}}},
		}
	}
	call := func(output string) afterbay.Step {
		return afterbay.Step{Call: &afterbay.Call{Go: "one", Outputs: []afterbay.Field{{Name: output, Type: "int"}}}}
	}
	inner := afterbay.Step{Route: []afterbay.Case{{Name: "big", When: "amount > 9.0", Steps: []afterbay.Step{{Emit: &afterbay.Emit{Topic: "nested", Names: []string{"card"}}}}}, {Name: "default", Then: "drop"}}}
	cases := []afterbay.Case{{Name: "big", When: "amount > 9.0", Steps: out("")}, {Name: "default", Steps: append(out("card"), inner)}}
	pipeline := func(steps []afterbay.Step, cases ...afterbay.Case) afterbay.Pipeline {
		p := afterbay.Pipeline{Name: "payments", Input: afterbay.Input{Topic: "in", Key: "card", Fields: []afterbay.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}}}}
		p.Steps = append(steps, call("one"), afterbay.Step{Emit: &afterbay.Emit{Topic: "all", Names: []string{"card"}}}, afterbay.Step{Route: cases})
		p.Code.Functions = map[string]udf.Function{"one": {Version: 1, Event: func(*udf.Context) error { return nil }}}
		return p
	}
	labels := func(p afterbay.Pipeline) []string {
		planned, err := afterbay.PlanOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return planned.Stages
	}
	before := labels(pipeline(nil, cases...))
	if n := len(before); len(slices.Compact(slices.Sorted(slices.Values(before)))) != n {
		t.Errorf("labels %q", before)
	}
	added := pipeline([]afterbay.Step{call("above"), {Emit: &afterbay.Emit{Topic: "all", Name: "above", ID: "card", Names: []string{"card"}}}},
		slices.Concat(cases[:1], []afterbay.Case{{Name: "above", When: "amount > 5.0", Steps: out("")}}, cases[1:])...)
	after := labels(added)
	for _, label := range before {
		if !slices.Contains(after, label) {
			t.Errorf("%s is gone: %q", label, after)
		}
	}
	if n := len(after); len(slices.Compact(slices.Sorted(slices.Values(after)))) != n {
		t.Errorf("labels %q", after)
	}
}
