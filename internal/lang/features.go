package lang

import (
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// Features are features of the event's key that count an event together.
type Features struct{ List []Feature }

// Feature is a keyed feature: exactly one of Windows, Last and Elapsed.
type Feature struct {
	Name       string
	Value      string   // expression; "" counts events
	When       string   // expression of type bool; "" is always
	Windows    []string // "60s" exact, "60s/5s" in panes of 5 s
	Last       int      // the newest values by arrival, 1 to 1,000
	Elapsed    bool     // seconds since the key's newest event before this one for which When holds
	Aggregates []string // count, sum, mean, max, min
	Decimals   *int     // aggregate exact integers of this many decimals, 0 to 9
	Empty      *float64 // mean, max and min of nothing, and elapsed before the first event; nil is 0
	Max        int      // entries of exact windows of a key, 64 to 1,048,576; 0 is 65,536
	Overflow   string   // beyond Max: pane (default) reads sixtieths of the window, dlq refuses the event
}

// StepKind implements Step.
func (*Features) StepKind() *StepKind { return &featuresKind }

var featuresKind = stepKind("features", spec.State, spec.Into(func(f *Features) *[]Feature { return &f.List }, readFeatures),
	"{spend: {value: amount, windows: [60s, 24h], aggregates: [count, sum]}}", "names, each a feature of the event's key")

var readFeatures = spec.Named(func(f *Feature) *string { return &f.Name }, spec.MappingOf(featureFields))

const oneShape = "one of `windows`, `last` and `elapsed` is required"

var featureFields = []spec.Field[Feature]{
	{Name: "value", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Value }, spec.ReadExpression),
		Example: "amount", Help: "what is aggregated, of type number or int"},
	{Name: "when", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.When }, readBool), Example: "amount > 0", Help: "which events count"},
	{Name: "windows", Affects: spec.State, Form: spec.Into(func(f *Feature) *[]string { return &f.Windows }, spec.ListOf(spec.Window())),
		Example: "[60s, 24h/1h]", Absent: oneShape},
	{Name: "last", Affects: spec.State, Form: spec.Into(func(f *Feature) *int { return &f.Last }, spec.Whole[int](1, 1000)), Example: "10", Absent: oneShape},
	{Name: "elapsed", Affects: spec.State, Form: spec.Into(func(f *Feature) *bool { return &f.Elapsed }, spec.OnlyTrue()), Example: "true", Absent: oneShape},
	{Name: "aggregates", Affects: spec.State, Form: spec.Into(func(f *Feature) *[]string { return &f.Aggregates },
		spec.ListOf(spec.Choice[string]("count", "sum", "mean", "max", "min"))),
		Example: "[count, sum]", Help: "what is read of windows or of the last values", Absent: "needed but with `elapsed`"},
	{Name: "decimals", Affects: spec.State, Form: spec.Optional(func(f *Feature) **int { return &f.Decimals }, spec.Whole[int](0, 9)),
		Example: "2", Absent: "numbers are added as they are"},
	{Name: "empty", Affects: spec.Outputs, Form: spec.Optional(func(f *Feature) **float64 { return &f.Empty }, spec.Number().Default(0)), Example: "-1"},
	{Name: "max", Affects: spec.State, Form: spec.Into(func(f *Feature) *int { return &f.Max }, spec.Whole[int](64, 1<<20).Default(DefaultFeatureMax)),
		Example: "1000", Help: "entries of exact windows of a key"},
	{Name: "overflow", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Overflow }, spec.Choice[string]("pane", "dlq").Default("pane")), Example: "dlq"},
}

// Declare implements Step: a feature waits for no feature.
func (*Features) Declare(*Declared) {}

// Effect implements Step.
func (*Features) Effect() Effects { return Effects{} }

// Keeps implements Keeper.
func (f *Features) Keeps(m *Meaning) (parts []Part) {
	for i := range f.List {
		parts = append(parts, Part{generation.KindFeature, f.List[i].Name, PartOf(m, f, featureFields, &f.List[i])})
	}
	return parts
}
