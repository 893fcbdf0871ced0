package compile_test

import (
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/udf"
)

// TestAStepThatIsAddedChangesNoLabel adds a case above the others of a route, an emit
// above others of its topic, and the call of a function above another of it: dead letters
// and the async queue store labels.
func TestAStepThatIsAddedChangesNoLabel(t *testing.T) {
	out := func(id string) []lang.Step {
		return []lang.Step{
			&steps.Let{List: []lang.Binding{{Name: "size", Expr: `"s"`}}},
			&steps.Emit{Topic: "out", ID: id, Names: []string{"card"}},
		}
	}
	call := func(output string) lang.Step {
		return &steps.Call{Go: "one", Outputs: []lang.Field{{Name: output, Type: "int"}}}
	}
	inner := &steps.Route{Cases: []lang.Case{{Name: "big", When: "amount > 9.0", Steps: []lang.Step{&steps.Emit{Topic: "nested", Names: []string{"card"}}}}, {Name: "default", Then: "drop"}}}
	cases := []lang.Case{{Name: "big", When: "amount > 9.0", Steps: out("")}, {Name: "default", Steps: append(out("card"), inner)}}
	made := func(list []lang.Step, cases ...lang.Case) lang.Pipeline {
		p := lang.Pipeline{Name: "payments", Input: lang.Input{Topic: "in", Key: "card", Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}}}}
		p.Steps = append(list, call("one"), &steps.Emit{Topic: "all", Names: []string{"card"}}, &steps.Route{Cases: cases})
		p.Code.Functions = map[string]udf.Function{"one": {Version: 1, Event: func(*udf.Context) error { return nil }}}
		return p
	}
	labels := func(p lang.Pipeline) []string {
		planned, err := compile.PlanOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return planned.Stages
	}
	before := labels(made(nil, cases...))
	if n := len(before); len(slices.Compact(slices.Sorted(slices.Values(before)))) != n {
		t.Errorf("labels %q", before)
	}
	added := made([]lang.Step{call("above"), &steps.Emit{Topic: "all", Name: "above", ID: "card", Names: []string{"card"}}},
		slices.Concat(cases[:1], []lang.Case{{Name: "above", When: "amount > 5.0", Steps: out("")}}, cases[1:])...)
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
