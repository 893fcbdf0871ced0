package steps

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Each runs steps for the elements of a list of an event. It makes a list or records of the
// results.
type Each struct {
	In     string       // expression of a list
	As     string       // prefix of the names of an element's fields, or the name of a scalar
	Fields []lang.Field // fields of elements that are objects
	Max    int          // most elements; 0 is 200
	When   string       // condition for elements; "" means all
	Steps  []lang.Step
	Gather *Gather // nil makes no list
}

// Gather describes the list that the elements form.
type Gather struct {
	To    string // the name of the list
	When  string // condition for elements with a value in the list; "" means all
	Sort  string // expression of a number, the smallest first; "" keeps the order
	Top   int    // most values; 0 means all
	Value Member // without a name
}

const (
	defaultElements = 200
	maxElements     = 4096 // the largest number of rows of a model call
)

// StepKind implements Step.
func (*Each) StepKind() *lang.StepKind { return &eachKind }

var eachKind = lang.KindOf("each", spec.State, spec.MappingOf(eachFields),
	"{in: candidates, as: item, fields: {sku: string, price: number}, gather: {to: cheapest, sort: item.price, top: 10, value: item.sku}}",
	"does steps for each element of a list, and makes one list or records of the results")

var eachFields = []spec.Field[Each]{
	{Name: "in", Affects: spec.Outputs, Required: true, Form: spec.Into(func(e *Each) *string { return &e.In }, spec.ReadExpression),
		Example: "candidates", Help: "a list: an expression such as a field of type `raw[]` or `string[]`. One that may be absent needs `?? []`"},
	{Name: "as", Affects: spec.Outputs, Required: true, Form: spec.Into(func(e *Each) *string { return &e.As }, spec.ReadName),
		Example: "item", Help: "prefix of the names of an element's fields, `item.price`; of scalars their name"},
	{Name: "fields", Affects: spec.Outputs, Form: spec.Into(func(e *Each) *[]lang.Field { return &e.Fields }, lang.ReadEventFields),
		Example: "{sku: string, price: number}", Absent: "elements are scalars", Help: "fields of elements that are objects, of a list of type `raw[]`; written as the `fields` of `input`"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(e *Each) *int { return &e.Max }, spec.Whole[int](1, maxElements).Default(defaultElements)),
		Example: "500", Help: "elements of a list; an event with a longer one is a dead letter"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(e *Each) *string { return &e.When }, lang.ReadBool),
		Example: "item.price < 100", Absent: "for all", Help: "which elements the steps run for. The others are not in the list that `gather` makes"},
	{Name: "steps", Affects: spec.State, Form: spec.Into(func(e *Each) *[]lang.Step { return &e.Steps }, lang.ReadSteps),
		Example: "[score: {model: rank, inputs: [item.price]}]", Absent: "none", Help: "let, lookup of a table, at most one score, and emits, for each element. An emit writes a record for each element; its id ends with `/` and the place of the element, from 0"},
	{Name: "gather", Affects: spec.Outputs, Form: spec.Optional(func(e *Each) **Gather { return &e.Gather }, spec.MappingOf(gatherFields)),
		Example: "{to: ranked, sort: -rank.score, top: 10, value: {sku: item.sku, score: rank.score}}", Absent: "no list: the steps have an emit", Help: "makes one list of the results, and gives it a name that the steps below can read"},
}

var gatherFields = []spec.Field[Gather]{
	{Name: "to", Affects: spec.Outputs, Required: true, Form: spec.Into(func(g *Gather) *string { return &g.To }, spec.ReadName), Example: "ranked", Help: "the name of the list"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(g *Gather) *string { return &g.When }, lang.ReadBool),
		Example: "rank.score > 0.5", Absent: "all", Help: "which elements have a value in the list"},
	{Name: "sort", Affects: spec.Outputs, Form: spec.Into(func(g *Gather) *string { return &g.Sort }, spec.ReadExpression),
		Example: "-rank.score", Absent: "the order of the elements", Help: "an int or number. The list is in ascending order: `-rank.score` puts the highest score first. Elements with equal numbers keep the order of the input list"},
	{Name: "top", Affects: spec.Outputs, Form: spec.Into(func(g *Gather) *int { return &g.Top }, spec.Whole[int](1, maxElements)),
		Example: "10", Absent: "all", Help: "the most values that the list has: the first ones after sorting"},
	{Name: "value", Affects: spec.Outputs, Required: true, Form: spec.OneOf("write an expression, or `{name: expression}`",
		spec.Scalar, spec.Into(func(g *Gather) *string { return &g.Value.Expr }, spec.ReadExpression),
		spec.Mapping, spec.Into(func(g *Gather) *[]Member { return &g.Value.Members }, membersForm(maxObjects))),
		Example: "{sku: item.sku, score: rank.score}", Help: "the value of an element: an expression, which makes a list such as `string[]`, or an object, which makes a list of type `raw[]`"},
}

// Declare implements Step.
func (e *Each) Declare(d *lang.Declared) {
	if e.Gather != nil {
		d.Add(e.Gather.To)
	}
}

// Effect implements Step.
func (e *Each) Effect() lang.Effects {
	fails := slices.ContainsFunc(e.Steps, func(s lang.Step) bool { _, scores := s.(*Score); return scores })
	return lang.Effects{Fails: fails, Elements: e.Steps}
}

// boundEach runs steps for elements.
type boundEach struct {
	path  string
	each  operator.Each
	nodes []lang.Node // in the order of the file
	score int         // index of the score in nodes; -1 if the each has no score
	waves bool        // it reads values of the event that exist only in the waves
	most  int         // batch size in the file; 0 if not set
}

// Bind implements Step.
func (e *Each) Bind(s *lang.Scope, path string) {
	b := &boundEach{path: path, score: -1, each: operator.Each{Name: e.In, Max: cmp.Or(e.Max, defaultElements)}}
	if e.Max < 0 || e.Max > maxElements {
		s.Fail(path+".max", "%d is out of range: use 1 to %d elements", e.Max, maxElements)
	}
	b.each.In = e.bindList(s, path)
	if e.Gather == nil && !slices.ContainsFunc(e.Steps, func(s lang.Step) bool { _, emits := s.(*Emit); return emits }) {
		s.Fail(path, "it makes no list and no records")
		s.Hint("write gather, which makes a list of the results, or an emit among its steps")
		return
	}
	var to value.Type
	b.nodes = s.Elements(path, func() {
		e.bindElement(s, path, b)
		if e.When != "" {
			b.each.When = s.Expr(path+".when", e.When, value.Bool)
		}
		if !e.allowed(s, path) {
			return
		}
		if s.Steps(path+".steps", e.Steps); !s.Ended && e.Gather != nil {
			to = e.Gather.bind(s, path+".gather", b)
		}
	})
	b.waves = b.waves || s.Fed(b.each.In, b.each.When)
	if s.Ended || e.Gather != nil && !e.bindTo(s, path+".gather.to", b, to) {
		return
	}
	b.place()
	s.Add(e, path, b)
}

// bindTo introduces the list that gather makes.
func (e *Each) bindTo(s *lang.Scope, path string, b *boundEach, to value.Type) (ok bool) {
	if !s.Identifier(path, e.Gather.To) {
		return false
	}
	if to.Kind == 0 {
		s.Names.Broken[e.Gather.To] = true
		return false
	}
	b.waves = b.waves || s.Fed(b.each.Gather.When, b.each.Gather.Sort)
	b.each.Gather.To, ok = s.Make(path, e.Gather.To, to)
	return ok
}

// bindList resolves the list. It returns nil after a finding.
func (e *Each) bindList(s *lang.Scope, path string) *expression.Program {
	list := s.Expr(path+".in", e.In)
	if list == nil {
		return nil
	}
	kind := list.Type().Kind
	switch {
	case !kind.IsList():
		s.Fail(path+".in", "it is of type %v, but a list is needed", list.Type())
		if kind == value.Raw {
			s.Hint("give the field the type raw[]")
		}
	case list.Type().Optional:
		s.Fail(path+".in", "it may be absent")
		s.Hint("write a default: " + e.In + " ?? []")
	case kind.Element() == value.Raw && len(e.Fields) == 0:
		s.Fail(path+".fields", "missing: name the fields that are read from the objects of the list, with their types")
	case kind.Element() != value.Raw && len(e.Fields) > 0:
		s.Fail(path+".fields", "the elements are of type %v: they have no fields", kind.Element())
		s.Hint("remove it: " + e.As + " is the element")
	default:
		return list
	}
	return nil
}

// bindElement introduces the names of an element.
func (e *Each) bindElement(s *lang.Scope, path string, b *boundEach) {
	if !s.Identifier(path+".as", e.As) {
		return
	}
	if b.each.In == nil {
		s.Names.Broken[e.As] = true
	} else if len(e.Fields) == 0 {
		b.each.Item, _ = s.Make(path+".as", e.As, value.Type{Kind: b.each.In.Type().Kind.Element()})
	}
	for _, f := range e.Fields {
		at, name := path+".fields."+f.Name, e.As+"."+f.Name
		t, err := value.ReadType(f.Type)
		if err != nil {
			s.Fail(at, "%v", err)
			s.Names.Broken[name] = true
			continue
		}
		if f.From != "" {
			s.Fail(at+".from", "an element is a value of the data of its event")
			s.Hint("remove it, and read it as a field of the input")
			s.Names.Broken[name] = true
			continue
		}
		if slot, ok := s.Make(at, name, t); s.Identifier(at, f.Name) && ok {
			b.each.Fields = append(b.each.Fields, s.Located(at, envelope.None, f, slot))
		}
	}
	s.Distinct(path+".fields", b.each.Fields)
}

// allowed reports whether the steps may run for elements.
func (e *Each) allowed(s *lang.Scope, path string) bool {
	before, scored := len(s.Errs), false
	for i, step := range e.Steps {
		if step == nil {
			continue
		}
		kind := step.StepKind().Name
		at := fmt.Sprintf("%s.steps[%d].%s", path, i, kind)
		switch step := step.(type) {
		case *Let:
		case *Emit:
			if step.ID != "" {
				s.Fail(at+".id", "the ids of records of elements end with the place of the element")
				s.Hint("remove it; key says which record of a topic an element replaces")
			}
		case *Score:
			step.refuseElements(s, at)
			if scored {
				s.Fail(at, "one each has at most one score")
				s.Hint("write a second each below, with the list that gather makes as `in`: it scores that list")
			}
			scored = true
		case *Lookup:
			if step.Config != nil {
				s.Fail(at, "rows outside of the log are found for an event, not for each of its elements")
				s.Hint("use a table: a topic with the newest record of each key as its row")
			}
		default:
			s.Fail(at, "an each has let, score, lookup and emit, and no %s", kind)
			s.Hint(instead[kind])
		}
	}
	return len(s.Errs) == before
}

// instead maps each kind of step that an each cannot contain to the alternative.
var instead = map[string]string{
	"features": "elements have no key: write features of the event above the each, and use a lookup of a table for facts about an element",
	"route":    "write conditions in let, or when in the score",
	"decide":   "write let, and decide below the each",
	"call":     "call the function below the each: it gets the list that gather makes",
	"group":    "write it above the each",
	"join":     "write it above the each",
	"fetch":    "fetch above the each",
	"each":     "write one each below the other; fields of an element may be lists of scalars",
}

// refuseElements reports the fields of a score that an each does not allow.
func (x *Score) refuseElements(s *lang.Scope, path string) {
	if x.OnFailure != nil {
		s.Fail(path+".on_failure", "an event becomes a dead letter if an element has no score")
		s.Hint("remove it; with open: fallback, the values of fallback replace the scores while the model is down")
	}
	if x.Partial != nil {
		s.Fail(path+".partial", "partial answers are written for an event, not for each of its elements")
		s.Hint("remove it")
	}
}

// bind resolves the value of the list and returns the type of the list. It returns the zero type
// after a finding.
func (g *Gather) bind(s *lang.Scope, path string, b *boundEach) value.Type {
	into := new(operator.Gather)
	b.each.Gather = into
	if into.Top = g.Top; g.Top < 0 || g.Top > maxElements {
		s.Fail(path+".top", "%d is out of range: use 1 to %d", g.Top, maxElements)
	}
	if g.When != "" {
		into.When = s.Expr(path+".when", g.When, value.Bool)
	}
	if g.Sort != "" {
		into.Sort = s.Expr(path+".sort", g.Sort, value.Int, value.Number)
	}
	before := len(s.Errs)
	if g.Value.Members != nil {
		into.Object = new(operator.Object)
		b.waves = bindObject(s, path+".value", nil, g.Value.Members, into.Object)
		if len(s.Errs) > before {
			return value.Type{}
		}
		return value.Type{Kind: value.List | value.Raw}
	}
	program := s.Expr(path+".value", g.Value.Expr, value.Bool, value.Int, value.Number, value.Time, value.String, value.Raw)
	if program == nil {
		return value.Type{}
	}
	b.waves = s.Fed(program)
	slot, ok := s.Make(path+".value", s.HiddenName(), program.Type())
	if !ok {
		return value.Type{}
	}
	into.Value = operator.Assign{Name: "value", Slot: slot, Program: program}
	return value.Type{Kind: value.List | program.Type().Kind}
}

// place finds the score among the nodes, and whether the nodes need the waves.
func (b *boundEach) place() {
	for i, n := range b.nodes {
		if x, ok := n.Step.(*Score); ok {
			b.score, b.most = i, x.Batch.Size
		}
		b.waves = b.waves || n.Place().Waves
	}
}

// Place implements Bound.
func (b *boundEach) Place() lang.Place {
	var p lang.Place
	if b.score >= 0 {
		p = b.nodes[b.score].Place()
	}
	p.Waves = b.waves
	for _, n := range b.nodes {
		p.Adds = p.Adds || n.Place().Adds
		p.OwnTable = cmp.Or(p.OwnTable, n.Place().OwnTable)
	}
	return p
}

// Lower implements Bound.
func (b *boundEach) Lower(p *lang.Plan, at lang.At) operator.Operator {
	each, score := b.each, (*operator.Score)(nil)
	for i, n := range b.nodes {
		op := n.Lower(p, at)
		emit, emits := op.(*operator.Emit)
		switch {
		case emits:
			each.Emits = append(each.Emits, emit)
		case i == b.score:
			score = op.(*operator.Score)
		case score == nil:
			each.Before = append(each.Before, op)
		default:
			each.After = append(each.After, op)
		}
	}
	if score == nil {
		return operator.NewEach(each)
	}
	return operator.NewScored(each, score, b.rows(score))
}

// rows returns the largest number of elements in one call.
func (b *boundEach) rows(score *operator.Score) int {
	if b.most == 0 && score.Model.Info().Batch.Size == 0 {
		return max(score.Size, b.each.Max)
	}
	return score.Size
}

// Open implements Opener.
func (b *boundEach) Open(r *lang.Resources) lang.Bound {
	if b.score < 0 {
		return b
	}
	scored := b.nodes[b.score].Bound.(lang.Opener).Open(r)
	if scored == nil {
		return nil
	}
	opened := *b
	opened.nodes = slices.Clone(b.nodes)
	opened.nodes[b.score].Bound = scored
	opened.check(r, scored.(*boundScore))
	return &opened
}

// check reports models that cannot score all elements of an event in one call.
func (b *boundEach) check(r *lang.Resources, x *boundScore) {
	score, path := &x.score, x.path+".model"
	info := score.Model.Info()
	switch {
	case info.State > 0:
		r.Fail(path, "model %s keeps state of each key, and elements have no key", score.Name)
	case score.Contents:
		r.Fail(x.path+".inputs", "content is given to a model for an event, not for each of its elements")
		r.Hint("score it above the each")
	case score.Calling == nil:
		return
	case info.RowsMax > 0 && info.RowsMax < b.each.Max:
		r.Fail(path, "model %s takes %d rows in a request, and an event has up to %d elements: if one request failed, all requests would be repeated", score.Name, info.RowsMax, b.each.Max)
		r.Hint(fmt.Sprintf("write max: %d or less in the each, or use a model that takes more rows", info.RowsMax))
	case b.rows(score) < b.each.Max:
		r.Fail(x.path, "a call has %d rows, but one call must score up to %d elements of an event", b.rows(score), b.each.Max)
		r.Hint(fmt.Sprintf("write batch: {size: %d} or more", b.each.Max))
	case slices.ContainsFunc(b.nodes, func(n lang.Node) bool { _, looks := n.Step.(*Lookup); return looks }):
		r.Fail(b.path+".steps", "an event may wait for model %s, and the rows of the table may change until the answer arrives", score.Name)
		r.Hint("do the lookup in an each above this one, add the found values to its gather, and use its list as `in` of this one")
	}
}
