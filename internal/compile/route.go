package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// route compiles the ways that events take. The stages of a case are in the one
// list of stages, guarded by a slot that holds the number of the case.
func (c *compiler) route(path string, cases []lang.Case) {
	slot, _ := c.Make(path, c.HiddenName(), value.Type{Kind: value.Int})
	stage := &operator.Route{Slot: slot}
	for i := range cases {
		c.routeCase(path, cases, i, stage)
	}
	if c.plan.Cases == nil && len(c.Guards) == 0 {
		c.plan.Cases = stage
	} else if i := slices.IndexFunc(cases, func(way lang.Case) bool { return way.Budget != 0 }); i >= 0 {
		c.Fail(path+"."+cases[i].Name+".budget", "events are measured by the case that they take of the first route: another has no budgets")
		c.Hint("give one to a case of the first route, or to the pipeline")
	}
	c.add(node{op: stage, waves: c.Fed(stage.When...)})

	c.Names.Routes = append(c.Names.Routes, path)
	c.depth++
	var everywhere []string // names that all cases so far introduce
	first := true
	for i, way := range cases {
		if way.Then != "" {
			continue
		}
		name := way.Name
		if n := len(c.Guards); n > 0 {
			name = c.Guards[n-1].Name + "." + name
		}
		c.Guards = append(c.Guards, &operator.Guard{Slot: slot, Case: int64(i), Name: name})
		at := path + "." + way.Name
		around := c.async
		c.async = c.async || way.Async
		introduced := c.inCase(at, at+".steps", way.Steps)
		c.async, c.Guards = around, c.Guards[:len(c.Guards)-1]
		if c.cut {
			return
		}
		if first {
			everywhere, first = introduced, false
		} else {
			everywhere = slices.DeleteFunc(everywhere, func(name string) bool { return !slices.Contains(introduced, name) })
		}
	}
	c.depth--
	c.Names.Routes = c.Names.Routes[:len(c.Names.Routes)-1]
	for _, name := range everywhere {
		delete(c.Names.Cases, name)
	}
}

// routeCase compiles the condition of a case and where it leads.
func (c *compiler) routeCase(path string, cases []lang.Case, i int, stage *operator.Route) {
	way := &cases[i]
	at := path + "." + way.Name
	otherwise := way.Name == "default"
	switch {
	case !c.Identifier(at, way.Name):
	case slices.ContainsFunc(cases[:i], func(o lang.Case) bool { return o.Name == way.Name }):
		c.Fail(at, "two cases are named %q", way.Name)
	case otherwise && i != len(cases)-1:
		c.Fail(at, "default takes what no case before it took, so it is the last one")
	case otherwise && way.When != "":
		c.Fail(at+".when", "default has no condition")
	case otherwise && i == 0:
		c.Fail(path, "a route needs a case beside default")
	case !otherwise && way.When == "":
		c.Fail(at, "missing when: the condition of events that take this case")
	}
	var when *expression.Program
	if way.When != "" {
		when = c.Expr(at+".when", way.When, value.Bool)
	}
	then := operator.GoOn
	switch {
	case way.Then == "" && len(way.Steps) == 0:
		c.Fail(at+".steps", "missing: write steps, dlq or drop")
	case way.Then != "" && len(way.Steps) > 0:
		c.Fail(at+".steps", "a case has either steps or one of dlq and drop")
	case way.Then == "dlq":
		then = operator.Dead
	case way.Then == "drop":
		then = operator.Drop
	case way.Then != "":
		c.Fail(at+".steps", "unknown word %q: write a list of steps, dlq or drop", way.Then)
	}
	if way.Budget < 0 {
		c.Fail(at+".budget", "%v is below 0", way.Budget)
	}
	stage.Names = append(stage.Names, way.Name)
	stage.Limit = append(stage.Limit, way.Budget)
	stage.When = append(stage.When, when)
	stage.Then = append(stage.Then, then)
}

// inCase compiles the steps of a case and returns the names they introduce,
// which are out of scope after it.
func (c *compiler) inCase(at, path string, steps []lang.Step) []string {
	before := len(c.Names.Introduced)
	c.steps(path, steps)
	c.resolveWaiting(true)
	return c.Names.Leave(at, before)
}
