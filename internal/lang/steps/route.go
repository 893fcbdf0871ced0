package steps

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Route sends an event to the first case with a true condition, or to the last case, default.
type Route struct{ Cases []lang.Case }

// StepKind implements Step.
func (*Route) StepKind() *lang.StepKind { return &routeKind }

var routeKind = lang.KindOf("route", spec.State, spec.Into(func(r *Route) *[]lang.Case { return &r.Cases }, readCases),
	"{small: {when: amount < 10, steps: drop}, default: dlq}",
	"cases: an event takes the first case with a true condition. Other events take the last case, `default`")

// caseFields are the fields of a case with a condition.
var caseFields = []spec.Field[lang.Case]{
	{Name: "when", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *lang.Case) *string { return &c.When }, lang.ReadBool), Example: "amount < 10", Help: "whether it takes the event"},
	{Name: "steps", Affects: spec.State, Required: true, Form: caseSteps, Example: `[let: {body: 'text ?? ""'}]`, Help: caseStepsMean},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(c *lang.Case) *bool { return &c.Async }, spec.OnlyTrue()), Example: "true", Absent: "its scores are computed in the place of the event",
		Help: "all its scores are `async`"},
	caseBudget,
}

var caseBudget = spec.Field[lang.Case]{
	Name: "budget", Affects: spec.Nothing, Form: spec.Into(func(c *lang.Case) *time.Duration { return &c.Budget }, lang.ReadShare), Example: "30s", Absent: "the pipeline's `budget`",
	Help: "the limit that 99 of 100 of its events keep, from their append until their outputs are durable; only in the first route",
}

// defaultFields are the fields of the default case.
var defaultFields = []spec.Field[lang.Case]{
	{Name: "steps", Affects: spec.State, Required: true, Form: caseSteps, Example: "drop", Help: caseStepsMean},
	caseBudget,
	{Name: "when", Refused: "`default` has no condition", Instead: "remove it: the default takes every event that no case takes"},
}

const caseStepsMean = "the steps for the event. dlq makes it a dead letter, and drop ends it; the results of the steps above stay"

var (
	caseEnd   = spec.Into(func(c *lang.Case) *string { return &c.Then }, spec.Choice[string]("dlq", "drop"))
	caseSteps = spec.OneOf("write a list of steps, dlq or drop", spec.Scalar, caseEnd, spec.List,
		spec.Into(func(c *lang.Case) *[]lang.Step { return &c.Steps }, lang.ReadSteps))
)

var readCases = route()

// route reads the cases of a route, in their order.
func route() spec.Form[[]lang.Case] {
	condition, last := spec.MappingOf(caseFields), spec.OneOf("write dlq, drop or {steps: ...}", spec.Scalar, caseEnd, spec.Mapping, spec.MappingOf(defaultFields))
	cases := spec.Named(func(c *lang.Case) *string { return &c.Name }, spec.Form[lang.Case]{
		Read: func(r *spec.Reader, n *spec.Node, path string, into *lang.Case) {
			if into.Name == "default" {
				last.Read(r, n, path, into)
			} else {
				condition.Read(r, n, path, into)
			}
		}, Print: condition.Print, Shape: condition.Shape,
	})
	cases.Shape.Last = &last.Shape
	return spec.Form[[]lang.Case]{Read: func(r *spec.Reader, n *spec.Node, path string, into *[]lang.Case) {
		cases.Read(r, n, path, into)
		for i, c := range *into {
			if below := (*into)[i+1:]; c.Name == "default" && len(below) > 0 {
				at := spec.Join(path, c.Name)
				r.Fail(r.Places[at].Offset, at, "`default` must be the last case", "move it below "+spec.Shorten(below[len(below)-1].Name))
			}
		}
	}, Print: cases.Print, Shape: cases.Shape}
}

// Declare implements Step. It adds no names: the steps of the cases add theirs.
func (*Route) Declare(*lang.Declared) {}

// Effect implements Step.
func (r *Route) Effect() lang.Effects { return lang.Effects{Cases: r.Cases} }

// Empty reports whether the route has no cases.
func (r *Route) Empty() bool { return r.Cases == nil }

// Bind implements Step. The steps of all cases are in one list. A slot with the number of the
// chosen case guards them.
func (r *Route) Bind(s *lang.Scope, path string) {
	cases := r.Cases
	slot, _ := s.Make(path, s.HiddenName(), value.Type{Kind: value.Int})
	stage := &operator.Route{Slot: slot}
	for i := range cases {
		bindCase(s, path, cases, i, stage)
	}
	if s.Cases == nil && len(s.Guards) == 0 {
		s.Cases = stage
	} else if i := slices.IndexFunc(cases, func(way lang.Case) bool { return way.Budget != 0 }); i >= 0 {
		s.Fail(path+"."+cases[i].Name+".budget", "events are measured by their case of the first route: other routes have no budgets")
		s.Hint("give one to a case of the first route, or to the pipeline")
	}
	s.Add(r, path, lang.Ready(stage, lang.Place{Waves: s.Fed(stage.When...)}))

	s.Inside(path, func() { bindCases(s, path, cases, slot) })
}

// bindCases binds the steps of the cases. A name stays in scope below the route if every case that
// goes on introduces it.
func bindCases(s *lang.Scope, path string, cases []lang.Case, slot value.Slot) {
	var everywhere []string // names that all cases so far introduce
	first := true
	for i, way := range cases {
		if way.Then != "" {
			continue
		}
		name := way.Name
		if n := len(s.Guards); n > 0 {
			name = s.Guards[n-1].Name + "." + name
		}
		s.Guards = append(s.Guards, &operator.Guard{Slot: slot, Case: int64(i), Name: name})
		at := path + "." + way.Name
		around := s.Async
		s.Async = s.Async || way.Async
		introduced := s.Within(at, at+".steps", way.Steps)
		s.Async, s.Guards = around, s.Guards[:len(s.Guards)-1]
		if s.Ended {
			return
		}
		if first {
			everywhere, first = introduced, false
		} else {
			everywhere = slices.DeleteFunc(everywhere, func(name string) bool { return !slices.Contains(introduced, name) })
		}
	}
	for _, name := range everywhere {
		delete(s.Names.Cases, name)
	}
}

// bindCase binds the condition of a case, and its outcome.
func bindCase(s *lang.Scope, path string, cases []lang.Case, i int, stage *operator.Route) {
	way := &cases[i]
	at := path + "." + way.Name
	otherwise := way.Name == "default"
	switch {
	case !s.Identifier(at, way.Name):
	case slices.ContainsFunc(cases[:i], func(o lang.Case) bool { return o.Name == way.Name }):
		s.Fail(at, "two cases are named %q", way.Name)
	case otherwise && i != len(cases)-1:
		s.Fail(at, "default takes the events that no other case takes, so it must be the last case")
	case otherwise && way.When != "":
		s.Fail(at+".when", "default has no condition")
	case otherwise && i == 0:
		s.Fail(path, "a route needs a case beside default")
	case !otherwise && way.When == "":
		s.Fail(at, "missing when: the condition of events that take this case")
	}
	var when *expression.Program
	if way.When != "" {
		when = s.Expr(at+".when", way.When, value.Bool)
	}
	then := operator.GoOn
	switch {
	case way.Then == "" && len(way.Steps) == 0:
		s.Fail(at+".steps", "missing: write steps, dlq or drop")
	case way.Then != "" && len(way.Steps) > 0:
		s.Fail(at+".steps", "a case has either steps or one of dlq and drop")
	case way.Then == "dlq":
		then = operator.Dead
	case way.Then == "drop":
		then = operator.Drop
	case way.Then != "":
		s.Fail(at+".steps", "unknown word %q: write a list of steps, dlq or drop", way.Then)
	}
	if way.Budget < 0 {
		s.Fail(at+".budget", "%v is below 0", way.Budget)
	}
	stage.Names = append(stage.Names, way.Name)
	stage.Limit = append(stage.Limit, way.Budget)
	stage.When = append(stage.When, when)
	stage.Then = append(stage.Then, then)
}
