package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Route leads an event into the first case whose condition holds.
type Route struct{ Cases []Case }

// Case is one way of a route: an event takes the first whose condition holds.
type Case struct {
	Name  string
	When  string // expression of type bool; "" only of the last one, named default
	Steps []Step
	Then  string // instead of Steps: dlq (what happens without a default) or drop

	Async bool // its scores are computed off the loop, as those of Score.Async

	// Budget is how long 99 of 100 of its events may take, from their append until
	// their outputs are durable; 0 is what the pipeline's budget says. Only cases of
	// the first route have one.
	Budget time.Duration
}

// StepKind implements Step.
func (*Route) StepKind() *StepKind { return &routeKind }

var routeKind = stepKind("route", spec.State, spec.Into(func(r *Route) *[]Case { return &r.Cases }, readCases),
	"{small: {when: amount < 10, steps: drop}, default: dlq}",
	"cases: an event takes the first whose condition holds, and what no case takes goes to the last, `default`")

// caseFields are the words of a case with a condition.
var caseFields = []spec.Field[Case]{
	{Name: "when", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *Case) *string { return &c.When }, readBool), Example: "amount < 10", Help: "whether it takes the event"},
	{Name: "steps", Affects: spec.State, Required: true, Form: caseSteps, Example: `[let: {body: 'text ?? ""'}]`, Help: caseStepsMean},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(c *Case) *bool { return &c.Async }, spec.OnlyTrue()), Example: "true", Absent: "its scores are computed in the place of the event",
		Help: "all its scores are `async`"},
	caseBudget,
}

var caseBudget = spec.Field[Case]{
	Name: "budget", Affects: spec.Nothing, Form: spec.Into(func(c *Case) *time.Duration { return &c.Budget }, readShare), Example: "30s", Absent: "the pipeline's `budget`",
	Help: "what 99 of 100 of its events keep, from their append until their outputs are durable; of the first route alone",
}

// defaultFields are the words of the case that takes what no other does.
var defaultFields = []spec.Field[Case]{
	{Name: "steps", Affects: spec.State, Required: true, Form: caseSteps, Example: "drop", Help: caseStepsMean},
	caseBudget,
	{Name: "when", Refused: "`default` has no condition", Instead: "remove it: the default takes every event that no case takes"},
}

const caseStepsMean = "what happens to the event; dlq makes it a dead letter, drop ends it, and what the steps above it did stays"

var (
	caseEnd   = spec.Into(func(c *Case) *string { return &c.Then }, spec.Choice[string]("dlq", "drop"))
	caseSteps = spec.OneOf("write a list of steps, dlq or drop", spec.Scalar, caseEnd, spec.List,
		spec.Into(func(c *Case) *[]Step { return &c.Steps }, readSteps))
)

var readCases = route()

// route reads the cases of a route, in their order.
func route() spec.Form[[]Case] {
	condition, last := spec.MappingOf(caseFields), spec.OneOf("write dlq, drop or {steps: ...}", spec.Scalar, caseEnd, spec.Mapping, spec.MappingOf(defaultFields))
	cases := spec.Named(func(c *Case) *string { return &c.Name }, spec.Form[Case]{
		Read: func(r *spec.Reader, n *spec.Node, path string, into *Case) {
			if into.Name == "default" {
				last.Read(r, n, path, into)
			} else {
				condition.Read(r, n, path, into)
			}
		}, Print: condition.Print, Shape: condition.Shape,
	})
	cases.Shape.Last = &last.Shape
	return spec.Form[[]Case]{Read: func(r *spec.Reader, n *spec.Node, path string, into *[]Case) {
		cases.Read(r, n, path, into)
		for i, c := range *into {
			if below := (*into)[i+1:]; c.Name == "default" && len(below) > 0 {
				at := spec.Join(path, c.Name)
				r.Fail(r.Places[at].Offset, at, "`default` must be the last case", "move it below "+spec.Shorten(below[len(below)-1].Name))
			}
		}
	}, Print: cases.Print, Shape: cases.Shape}
}

// Declare implements Step: the steps of its cases do.
func (*Route) Declare(*Declared) {}

// Effect implements Step.
func (r *Route) Effect() Effects { return Effects{Cases: r.Cases} }
