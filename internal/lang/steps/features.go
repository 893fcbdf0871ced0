package steps

import (
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Features computes named aggregates over the events of a key. All features of a step count the
// event together.
type Features struct{ List []Feature }

// Feature is a keyed feature. It has exactly one of Windows, Last and Elapsed.
type Feature struct {
	Name       string
	Value      string        // expression; "" counts events
	When       string        // expression of type bool; "" is always
	From       string        // topic of the input with the events to count; "" means all inputs
	By         string        // field that keys the feature; "" means the event's key
	Delay      time.Duration // with By: delay until events see Value and When; 0 means none
	Per        string        // expression: the group of an event; "" means no groups
	Windows    []string      // sliding windows: "60s" keeps each entry and is exact, "60s/5s" keeps one partial result for each pane of 5 s
	Last       int           // the newest values by arrival, 1 to 1,000
	Elapsed    bool          // seconds since the key's previous event with When true
	Aggregates []string      // names of feature.Aggregates
	Type       string        // kind of a value that later steps make, if it is no number
	HalfLife   time.Duration // half-life of ewma
	Take       int           // values of list and top, 0 means 10; with Per, groups, 0 means 100
	Decimals   *int          // aggregate exact integers with this many decimals, 0 to 9
	Empty      *float64      // the result of a numeric aggregate without entries, and of elapsed for the first event: count, sum, changes and distinct are 0 instead; nil is 0
	Max        int           // entries in the exact windows of a key, 64 to 1,048,576; 0 means 65,536, or 1,024 with aggregates that read entries
	Overflow   string        // beyond Max: pane reads panes of a sixtieth of the window, oldest drops the oldest entries, dlq makes the event a dead letter
}

// StepKind implements Step.
func (*Features) StepKind() *lang.StepKind { return &featuresKind }

var featuresKind = lang.KindOf("features", spec.State, spec.Into(func(f *Features) *[]Feature { return &f.List }, readFeatures),
	"{spend: {value: amount, windows: [60s, 24h], aggregates: [count, sum]}}", "names, each a feature of the event's key")

var readFeatures = spec.Named(func(f *Feature) *string { return &f.Name }, spec.MappingOf(featureFields))

const oneShape = "one of `windows`, `last` and `elapsed` is required"

var featureFields = []spec.Field[Feature]{
	{Name: "value", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Value }, spec.ReadExpression),
		Example: "amount", Help: "the aggregated value, of type number or int. With aggregates of any kind alone also a bool, string, bytes or time; an int then keeps its 64 bits"},
	{Name: "when", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.When }, lang.ReadBool), Example: "amount > 0", Help: "which events count"},
	{Name: "from", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.From }, spec.ReadName), Example: "refunds", Absent: "events of all inputs count",
		Help: "the topic of one of the `inputs`: only its events count. All events read the feature"},
	{Name: "by", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.By }, spec.ReadName), Example: "merchant", Absent: "the key of the input",
		Help: "a field of type string or int: the feature is of the events with the same value of it. An event without a value reads `empty`"},
	{Name: "delay", Affects: spec.State, Form: spec.Into(func(f *Feature) *time.Duration { return &f.Delay }, spec.Span(time.Millisecond, time.Minute)), Example: "2s",
		Absent: "`value` and `when` are of fields, and known at once",
		Help:   "with `by`, needed where `value` or `when` use more than fields, such as a score: the age, in event time, at which later events know these values"},
	{Name: "per", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Per }, spec.ReadExpression), Example: "category", Absent: "the events are not split",
		Help: "a string, int or bool that splits the events into groups. Each aggregate is a map from group to result. The map has the `take` groups with the most events; if a window has more groups, outputs have the header `afterbay-approximate`"},
	{Name: "windows", Affects: spec.State, Form: spec.Into(func(f *Feature) *[]string { return &f.Windows }, spec.ListOf(spec.Window())),
		Example: "[60s, 24h/1h]", Absent: oneShape},
	{Name: "last", Affects: spec.State, Form: spec.Into(func(f *Feature) *int { return &f.Last }, spec.Whole[int](1, 1000)), Example: "10", Absent: oneShape},
	{Name: "elapsed", Affects: spec.State, Form: spec.Into(func(f *Feature) *bool { return &f.Elapsed }, spec.OnlyTrue()), Example: "true", Absent: oneShape},
	{Name: "aggregates", Affects: spec.State, Form: spec.Into(func(f *Feature) *[]string { return &f.Aggregates },
		spec.ListOf(spec.Choice[string](feature.AggregateNames()...))),
		Example: "[count, sum]", Help: "results of windows or of the last values: see [aggregates](#aggregates)", Absent: "required, except with `elapsed`"},
	{Name: "type", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Type }, spec.Choice[string]("bool", "int", "string", "time")), Example: "string",
		Absent: "that of `value`", Help: "the type of `value`; needed if `value` uses names of later steps and is not a number"},
	{Name: "half_life", Affects: spec.State, Form: spec.Into(func(f *Feature) *time.Duration { return &f.HalfLife }, spec.Span(time.Millisecond, 366*24*time.Hour)), Example: "10m",
		Absent: "needed with `ewma` alone", Help: "the age at which a value has half the weight in `ewma`"},
	{Name: "take", Affects: spec.Outputs, Form: spec.Into(func(f *Feature) *int { return &f.Take }, spec.Whole[int](1, 1000).Default(10)), Example: "5",
		Absent: "10 values, 100 with `per`", Help: "the most values of `list` and `top`, or the most groups of `per`. `top` takes 1 to 100"},
	{Name: "decimals", Affects: spec.State, Form: spec.Optional(func(f *Feature) **int { return &f.Decimals }, spec.Whole[int](0, 9)),
		Example: "2", Absent: "numbers are added as they are"},
	{Name: "empty", Affects: spec.Outputs, Form: spec.Optional(func(f *Feature) **float64 { return &f.Empty }, spec.Number().Default(0)), Example: "-1"},
	{Name: "max", Affects: spec.State, Form: spec.Into(func(f *Feature) *int { return &f.Max }, spec.Whole[int](64, 1<<20).Default(lang.DefaultFeatureMax)),
		Example: "1000", Absent: "65,536, or 1,024 with aggregates that look at entries", Help: "entries of exact windows of a key: at most 16,384 with such aggregates"},
	{Name: "overflow", Affects: spec.State, Form: spec.Into(func(f *Feature) *string { return &f.Overflow }, spec.Choice[string]("pane", "oldest", "dlq").Default("pane")), Example: "dlq", Absent: "pane, or oldest with aggregates that look at entries; `pane` can be chosen with `distinct`, `p50`, `p95` and `p99`"},
}

// Declare implements Step. It adds columns: a feature above may not read this feature as feedback.
func (f *Features) Declare(d *lang.Declared) {
	for i := range f.List {
		d.AddColumns(f.List[i].Name)
	}
}

// Effect implements Step.
func (*Features) Effect() lang.Effects { return lang.Effects{} }

// Keeps implements Keeper.
func (f *Features) Keeps(m *lang.Meaning) (parts []lang.Part) {
	for i := range f.List {
		parts = append(parts, lang.Part{Kind: generation.KindFeature, Name: f.List[i].Name, Text: lang.PartOf(m, f, featureFields, &f.List[i])})
	}
	return parts
}

// Empty reports whether it says nothing.
func (f *Features) Empty() bool { return f.List == nil }

// Bind implements Step. A feature that reads names of later steps is bound after those steps.
func (f *Features) Bind(s *lang.Scope, path string) {
	var made []*boundFeature
	for i := range f.List {
		of := &f.List[i]
		if of.By != "" {
			continue
		}
		m := of.bind(s, path+"."+of.Name)
		if m == nil {
			s.Names.Broken[of.Name], s.Names.Broken[of.Name+".*"] = true, true
			continue
		}
		if made = append(made, m); m.waits != nil {
			s.Defer(f, m.path, m)
		}
	}
	if len(made) > 0 {
		s.Add(f, path, boundFeatures(made))
	}
	f.bindAsked(s, path)
}

// boundFeatures are the features of a step.
type boundFeatures []*boundFeature

// Place implements Bound.
func (b boundFeatures) Place() lang.Place {
	p := lang.Place{Adds: true}
	for i, m := range b {
		if m.waits != nil {
			p.Reads = append(p.Reads, i)
			continue
		}
		p.Rest, p.Waves, p.Keeps = true, p.Waves || m.fed, append(p.Keeps, lang.Kept{Path: m.path})
	}
	return p
}

// Lower implements Bound.
func (b boundFeatures) Lower(p *lang.Plan, at lang.At) operator.Operator {
	if at.Read >= 0 {
		return operator.NewFeatures([]operator.Feature{b[at.Read].lower(p, true, true, false)})
	}
	var list []operator.Feature
	for _, m := range b {
		if m.waits == nil || at.Waves {
			list = append(list, m.lower(p, at.Waves, true, m.waits == nil))
		}
	}
	return operator.NewFeatures(list)
}

// boundFeature is a feature with columns in scope. Its expressions are bound too, unless it waits
// for later steps.
type boundFeature struct {
	path        string
	feature     *Feature
	spec        feature.Spec
	value, when *expression.Program
	per         *expression.Program
	columns     []value.Slot
	kind        value.Kind // kind of the value
	waits       []string   // names of later steps; if there are any, the feature is fed back
	fed         bool       // it reads fed-back features
}

// lower returns the operator of the feature. It reads the columns, adds the event, or does both;
// for a fed-back feature these are separate operators.
func (m *boundFeature) lower(p *lang.Plan, late, read, add bool) operator.Feature {
	f := operator.Feature{Name: m.feature.Name, Late: late, Index: p.Feature(m.spec, late), Read: read, Add: add}
	f.Refuses = m.feature.Value != "" || m.feature.When != "" || m.feature.Per != "" || m.spec.Overflow == feature.OverflowDead
	if read {
		f.Columns, f.Of, f.ReadFirst = m.columns, m.kind, m.feature.Elapsed && add
	}
	if add {
		f.Value, f.When, f.Per = m.value, m.when, m.per
	}
	return f
}

// Waits implements Deferred.
func (m *boundFeature) Waits() []string { return m.waits }

// Joins implements Deferred.
func (m *boundFeature) Joins(other lang.Deferred) bool {
	_, ok := other.(*boundFeature)
	return ok
}

// BindLate implements Deferred.
func (m *boundFeature) BindLate(s *lang.Scope, with []lang.Deferred) lang.Bound {
	var all boundCounts
	for _, d := range append([]lang.Deferred{m}, with...) {
		late := *d.(*boundFeature)
		s.AboveGroup(late.path)
		late.contribution(s)
		all = append(all, &late)
	}
	return all
}

// boundCounts counts an event in fed-back features, after the steps that introduce the names that
// the features use.
type boundCounts []*boundFeature

// Place implements Bound.
func (b boundCounts) Place() lang.Place {
	p := lang.Place{Waves: true, Adds: true, Rest: true, Behind: true}
	for _, m := range b {
		p.Keeps = append(p.Keeps, lang.Kept{Path: m.path})
	}
	return p
}

// Lower implements Bound.
func (b boundCounts) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	var list []operator.Feature
	for _, m := range b {
		list = append(list, m.lower(p, true, false, true))
	}
	return operator.NewFeatures(list)
}

// bind introduces the columns of a feature. It returns nil if the feature is invalid.
func (f *Feature) bind(s *lang.Scope, path string) *boundFeature {
	if !s.Identifier(path, f.Name) {
		return nil
	}
	spec, ok := f.bindShape(s, path)
	if !ok || !s.AboveGroup(path) {
		return nil
	}
	if f.Delay != 0 {
		s.Fail(path+".delay", "a feature of the event's own key needs no delay: an event sees the values of all events before it")
		s.Hint("remove it, or write by: with another field")
		return nil
	}
	m := &boundFeature{path: path, feature: f, spec: spec}
	for _, name := range slices.Concat(expression.NamesIn(f.Value), expression.NamesIn(f.When), expression.NamesIn(f.Per)) {
		if _, known := s.Names.Lookup(name); !known && (s.Names.Later[name] || s.Names.IsBroken(name)) {
			m.waits = append(m.waits, name)
		}
	}
	if m.waits == nil && !m.contribution(s) {
		return nil
	}
	if m.waits != nil {
		m.declared()
	}
	m.fed = s.Fed(m.value, m.when, m.per)
	if m.columns, ok = f.columns(s, path, m.spec, m.kind); !ok {
		return nil
	}
	for _, column := range m.columns {
		s.FedBack[column.Name] = m.waits != nil
	}
	return m
}

// keep sets the kind of values that the feature stores: numbers, or values of another kind
// unchanged.
func (m *boundFeature) keep(kind value.Kind) {
	m.kind = value.Number
	if !m.feature.ofAnyKind(&m.spec) || kind == value.Number {
		return
	}
	m.kind, m.spec.Kind = kind, feature.Ints
	if kind.Text() {
		m.spec.Kind = feature.Texts
	}
}

// ofAnyKind reports whether values may have kinds other than numbers: no aggregate needs numbers.
func (f *Feature) ofAnyKind(spec *feature.Spec) bool {
	counts := !slices.ContainsFunc(spec.Aggregates, func(a feature.Aggregate) bool { return a != feature.Count })
	return spec.Looks() && !counts && !slices.ContainsFunc(spec.Aggregates, feature.Aggregate.Numeric)
}

// columns introduces the columns of a feature with values of a kind.
func (f *Feature) columns(s *lang.Scope, path string, spec feature.Spec, kind value.Kind) (slots []value.Slot, ok bool) {
	one, err := feature.NewSet([]feature.Spec{spec})
	if err != nil {
		s.Fail(path, "%v", err)
		return nil, false
	}
	if kind == value.Bytes && slices.ContainsFunc(spec.Aggregates, feature.Aggregate.Many) {
		s.Fail(path+".value", "list and top need values of type number, int, bool, string or time, and these are bytes")
		return nil, false
	}
	if (kind == value.Bytes || kind == value.Time) && spec.Per && slices.ContainsFunc(spec.Aggregates, feature.Aggregate.Valued) {
		s.Fail(path+".value", "with per, a value must be of type number, int, bool or string, and this one is of type %v", kind)
		return nil, false
	}
	if spec.Kind != feature.Numbers && (f.Decimals != nil || f.Empty != nil) {
		s.Fail(path, "decimals and empty need numbers, but the values are of type %v: a missing value is absent", kind)
		return nil, false
	}
	for n, column := range one.Columns(0) {
		name := f.Name
		if column != "" {
			name += "." + column
		}
		if where, over := s.Names.Cases[name]; over {
			s.Fail(path, "%s has a feature of this name: a feature is defined once", where.At)
			s.Hint("write it above the route, or give it another name")
			return nil, false
		}
		typ := columnType(&spec, n, kind)
		slot, ok := s.Make(path, name, typ)
		if !ok {
			return nil, false
		}
		slots = append(slots, slot)
	}
	return slots, true
}

// columnType returns the type of column n of a feature with values of a kind.
func columnType(spec *feature.Spec, n int, kind value.Kind) value.Type {
	of := spec.Aggregates
	if len(of) == 0 { // elapsed
		return value.Type{Kind: value.Number}
	}
	switch a := of[n%len(of)]; {
	case spec.Per && a.Counts():
		return value.Type{Kind: value.Map | value.Int}
	case spec.Per && a.Valued():
		return value.Type{Kind: value.Map | kind}
	case spec.Per:
		return value.Type{Kind: value.Map | value.Number}
	case a == feature.List:
		return value.Type{Kind: value.List | kind}
	case a == feature.Top:
		return value.Type{Kind: value.Map | value.Int}
	case a.Valued() && spec.Kind != feature.Numbers:
		return value.Type{Kind: kind, Optional: true}
	}
	return value.Type{Kind: value.Number}
}

// contribution binds the value, the group and the condition of a feature.
func (m *boundFeature) contribution(s *lang.Scope) (ok bool) {
	before := len(s.Errs)
	m.feature.ofInput(s, m.path, func(source string) {
		if m.feature.Value != "" {
			m.bindValue(s)
		}
		if m.feature.Per != "" {
			m.per = s.Expr(m.path+".per", m.feature.Per, value.String, value.Int, value.Bool)
		}
		when := m.feature.When
		if when != "" {
			m.when = s.Expr(m.path+".when", when, value.Bool)
		}
		if source != "" && len(s.Errs) == before {
			m.when = s.Expr(m.path+".from", both(source, when), value.Bool)
		}
	})
	return len(s.Errs) == before
}

// bindValue binds the value of a feature.
func (m *boundFeature) bindValue(s *lang.Scope) {
	f, at := m.feature, m.path+".value"
	kinds := []value.Kind{value.Number, value.Int}
	if f.ofAnyKind(&m.spec) {
		kinds = append(kinds, value.Bool, value.String, value.Bytes, value.Time)
	}
	if m.value = s.Expr(at, f.Value, kinds...); m.value == nil {
		return
	}
	declared, kind, later := m.kind, m.value.Type().Kind, m.waits != nil || f.Delay > 0
	m.keep(kind)
	switch {
	case later && declared != m.kind:
		s.Fail(at, "the value is of type %v, and the columns are %v", kind, value.Type{Kind: declared})
		switch kind {
		case value.Number:
			s.Hint("remove type")
		case value.Bytes:
			s.Hint("values that are known later are of type bool, int, number, string or time: use one of them")
		default:
			s.Hint(fmt.Sprintf("write type: %v", kind))
		}
	case !later && f.Type != "" && f.Type != kind.String():
		s.Fail(m.path+".type", "the value is of type %v", kind)
		s.Hint("remove it")
	}
}

// bindShape checks the windows, aggregates and options of a feature.
func (f *Feature) bindShape(s *lang.Scope, path string) (feature.Spec, bool) {
	before := len(s.Errs)
	spec := feature.Spec{Name: f.Name, Last: f.Last, Elapsed: f.Elapsed, Decimals: -1, HalfLife: f.HalfLife, Take: f.Take, Per: f.Per != ""}
	shapes := 0
	for _, there := range []bool{len(f.Windows) > 0, f.Last != 0, f.Elapsed} {
		if there {
			shapes++
		}
	}
	if shapes != 1 {
		s.Fail(path, "a feature has exactly one of windows, last and elapsed")
	}
	for i, text := range f.Windows {
		window, err := feature.ParseWindow(text)
		if err != nil {
			s.Fail(fmt.Sprintf("%s.windows[%d]", path, i), "%v", err)
		}
		spec.Windows = append(spec.Windows, window)
	}
	counts := true
	for i, text := range f.Aggregates {
		aggregate, err := feature.ParseAggregate(text)
		if err != nil {
			s.Fail(fmt.Sprintf("%s.aggregates[%d]", path, i), "%v", err)
		}
		counts = counts && aggregate == feature.Count
		spec.Aggregates = append(spec.Aggregates, aggregate)
	}
	switch {
	case f.Elapsed && (len(f.Aggregates) > 0 || f.Value != "" || f.Per != "" || f.Decimals != nil || f.Type != "" || f.HalfLife != 0 || f.Take != 0):
		s.Fail(path, "elapsed takes no value, per, aggregates or decimals: it is the seconds since the key's newest event")
	case !f.Elapsed && len(f.Aggregates) == 0:
		s.Fail(path, "missing aggregates: name at least one, such as count or sum")
	case !f.Elapsed && f.Value == "" && !counts:
		s.Fail(path, "missing value: only count needs none")
	}
	if f.Decimals != nil {
		spec.Decimals = *f.Decimals
	}
	if f.Empty != nil {
		spec.Empty = *f.Empty
	}
	spec.Max = f.Max
	var err error
	if spec.Overflow, err = feature.ParseOverflow(f.Overflow); err != nil {
		s.Fail(path+".overflow", "%v", err)
	}
	exact := slices.ContainsFunc(spec.Windows, func(w feature.Window) bool { return w.Pane == 0 })
	if f.Overflow == "" && spec.Looks() && exact {
		spec.Overflow = feature.OverflowOldest
	}
	return spec, len(s.Errs) == before
}
