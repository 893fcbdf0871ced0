package compile_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/test/order"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

var (
	orderSeed  = flag.Uint64("order.seed", 0, "the first seed of the random pipelines; 0 draws it")
	orderCount = flag.Int("order.pipelines", 300, "how many random pipelines are compiled")
)

// TestRandomPipelinesAreInOrder compares what random pipelines become with what package
// order says, which imports nothing of the engine: the order of stages, where the waves
// begin, what is done for events that are given up, and what is refused.
func TestRandomPipelinesAreInOrder(t *testing.T) {
	first := *orderSeed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	t.Logf("-order.seed=%d", first)
	kinds := builtin.Kinds()
	seen := map[string]int{}
	for seed := range uint64(*orderCount) {
		p := order.Generate(first + seed)
		if !inOrder(t, first+seed, p, kinds, seen) {
			return
		}
	}
	t.Logf("%6d pipelines, of which %d compile and the others are refused as they should be", *orderCount, seen[""])
	for _, kind := range orderKinds {
		t.Logf("%6d with %s", seen[kind.name], kind.name)
		if seen[kind.name] < *orderCount/100 {
			t.Errorf("%d of %d have %s: too few", seen[kind.name], *orderCount, kind.name)
		}
	}
}

// aStray is what pipelines that are refused are counted by.
const aStray = "a name that is out of scope where it is read"

// orderKinds are what pipelines are counted by: those that compile, but for aStray.
var orderKinds = []struct {
	name string
	is   func(*order.Step) bool
}{
	{aStray, func(s *order.Step) bool { return s.Stray }},
	{"let", func(s *order.Step) bool { return s.Kind == "let" }},
	{"decide", func(s *order.Step) bool { return s.Kind == "decide" }},
	{"features", func(s *order.Step) bool { return s.Kind == "features" }},
	{"lookup in a table", func(s *order.Step) bool { return s.Kind == "lookup" && !s.Outside }},
	{"lookup outside of the process", func(s *order.Step) bool { return s.Outside }},
	{"fetch", func(s *order.Step) bool { return s.Kind == "fetch" }},
	{"score in place", func(s *order.Step) bool { return s.Kind == "score" && s.Model == order.Plain && !s.Async }},
	{"score that is async", func(s *order.Step) bool { return s.Kind == "score" && s.Async }},
	{"score whose model has a call", func(s *order.Step) bool { return s.Model == order.Called }},
	{"score whose model is outside, without call", func(s *order.Step) bool { return s.Model == order.Far }},
	{"score whose model has state", func(s *order.Step) bool { return s.Model == order.Kept }},
	{"function", func(s *order.Step) bool { return s.Kind == "call" && !s.Keyed }},
	{"keyed function", func(s *order.Step) bool { return s.Keyed }},
	{"route", func(s *order.Step) bool { return s.Kind == "route" }},
	{"group", func(s *order.Step) bool { return s.Kind == "group" }},
	{"ordered", func(s *order.Step) bool { return s.Ordered }},
	{"on_failure", func(s *order.Step) bool { return s.OnFailure != nil }},
	{"on_failure of a fetch", func(s *order.Step) bool { return s.Kind == "fetch" && s.OnFailure != nil }},
}

func inOrder(t *testing.T, seed uint64, p *order.Pipeline, kinds lang.Kinds, seen map[string]int) bool {
	t.Helper()
	file, err := config.Parse("p.yaml", []byte(p.YAML()), kinds)
	if err != nil {
		t.Errorf("-order.seed=%d -order.pipelines=1: %v\n%s", seed, err, p.YAML())
		return false
	}
	want := p.Order()
	made, err := compile.PlanOfKinds(bindOrder(file.Pipelines[0], p), kinds.Models)
	var found spec.Problems
	if err != nil && !errors.As(err, &found) {
		t.Fatal(err)
	}
	var refused []string
	for _, e := range found {
		refused = append(refused, e.Path)
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	if !slices.Equal(refused, want.Refused) {
		t.Errorf("-order.seed=%d -order.pipelines=1: refused\n got %q\nwant %q\n%v\n%s", seed, refused, want.Refused, err, p.YAML())
		return false
	}
	if err == nil && (!slices.Equal(made.Stages, want.Stages) || made.Waves != want.Waves || !slices.Equal(made.Failure, want.Failure)) {
		t.Errorf("-order.seed=%d -order.pipelines=1:\n got %q\n     waves from %d, %q\nwant %q\n     waves from %d, %q\n%s",
			seed, made.Stages, made.Waves, made.Failure, want.Stages, want.Waves, want.Failure, p.YAML())
		return false
	}
	if err == nil {
		seen[""]++
	}
	for _, kind := range orderKinds {
		if (err == nil) == (kind.name != aStray) && p.Has(kind.is) {
			seen[kind.name]++
		}
	}
	return true
}

// TestWrongStepForAFailureHidesNothingOfItsStep has a wrong name in the on_failure of steps
// that are ordered: what is said about the order of keys is not another finding.
func TestWrongStepForAFailureHidesNothingOfItsStep(t *testing.T) {
	lines := map[string]string{
		"fetch": "{fetch: {name: c, url: url, ordered: true, on_failure: [{let: {bad: c.type}}]}}",
		"score": "{score: {model: called, as: c, inputs: [a, b], ordered: true, on_failure: [{let: {bad: c.score}}]}}",
	}
	for kind, line := range lines {
		text := (&order.Pipeline{}).YAML() + "  - {fetch: {name: first, url: url}}\n  - " + line + "\n  - {features: {f: {value: a, last: 3, aggregates: [mean]}}}\n  - {emit: {topic: out, value: {x: f.mean}}}\n"
		kinds := builtin.Kinds()
		file, err := config.Parse("p.yaml", []byte(text), kinds)
		if err != nil {
			t.Fatal(err)
		}
		_, err = compile.PlanOfKinds(bindOrder(file.Pipelines[0], &order.Pipeline{}), kinds.Models)
		var found spec.Problems
		if !errors.As(err, &found) || len(found) != 1 || found[0].Path != "steps[1]."+kind+".on_failure[0].let.bad" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// bindOrder gives a pipeline its models and functions in Go.
func bindOrder(p lang.Pipeline, of *order.Pipeline) lang.Pipeline {
	p.Code.Models = map[string]model.Model{"far": twoNumbers{kind: "remote", remote: true}, "kept": twoNumbers{kind: "kept", state: 1}}
	p.Code.Functions = map[string]udf.Function{}
	of.Has(func(s *order.Step) bool {
		if s.Kind == "call" {
			p.Code.Functions[s.Name] = udf.Function{Version: 1, Keyed: s.Keyed, Event: func(*udf.Context) error { return nil }}
		}
		return false
	})
	return p
}

// twoNumbers is a model that nothing asks.
type twoNumbers struct {
	kind   string
	remote bool
	state  int
}

func (m twoNumbers) Info() model.Info {
	info := model.Info{Kind: m.kind, Digest: strings.Repeat("0", 64), Inputs: []model.Input{{Name: "x", Type: model.Number}, {Name: "y", Type: model.Number}}, Outputs: []model.Output{{Name: "score", Size: 1}}, Remote: m.remote, State: m.state}
	if m.state > 0 {
		info.Inputs, info.Outputs = append(info.Inputs, model.Input{Name: "state", Type: model.Bytes}), append(info.Outputs, model.Output{Name: "state", Size: m.state})
	}
	return info
}

func (twoNumbers) Check([]float64, [][]byte) error { return nil }

func (twoNumbers) Predict(context.Context, model.Rows, []float32) error { return nil }
