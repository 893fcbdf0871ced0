package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// call compiles the call of a function in Go.
func (c *compiler) call(path string, s *lang.Call) {
	before := len(c.Errs)
	f, ok := c.pipeline.Code.Functions[s.Go]
	switch {
	case s.Go == "":
		c.Fail(path+".go", "missing: name a function of Pipeline.Code.Functions")
	case !ok:
		c.Fail(path+".go", "no function is bound to %q", s.Go)
		c.Hint("bind it in Pipeline.Code.Functions of a program that embeds the library; the afterbay command has none")
	case !naming.Valid(s.Go):
		c.Fail(path+".go", "%q is not a name: use letters, digits, '_' and '-', at most 100", s.Go)
	case f.Event == nil:
		c.Fail(path+".go", "function %q has no Event", s.Go)
	case f.Version < 1:
		c.Fail(path+".go", "function %q has version %d: use a number from 1 that changes with what it does", s.Go, f.Version)
	case f.Timer != nil && !f.Keyed:
		c.Fail(path+".go", "function %q has a Timer but is not Keyed", s.Go)
	case f.Keyed && slices.ContainsFunc(c.plan.Calls, func(o *operator.Call) bool { return o.Name == s.Go }):
		c.Fail(path+".go", "function %q is called twice, and would share its state with itself", s.Go)
		c.Hint("bind it to a second name")
	}
	if f.Keyed {
		c.aboveGroup(path)
	}
	stage := &operator.Call{Index: len(c.plan.Calls), Name: s.Go, Function: &f, As: s.Name, ID: c.plan.Meta.ID}
	if s.When != "" {
		stage.When = c.Expr(path+".when", s.When, value.Bool)
	}
	for i, name := range s.Inputs {
		stage.Inputs = append(stage.Inputs, c.Slots(fmt.Sprintf("%s.inputs[%d]", path, i), name)...)
	}
	c.NoContent(path+".inputs", stage.Inputs...)
	for i, topic := range s.Topics {
		at := fmt.Sprintf("%s.topics[%d]", path, i)
		c.Writable(at, topic)
		c.OutputName(at, path+".name", topic, s.Name)
		stage.Topics = append(stage.Topics, topic)
		stage.Writes = append(stage.Writes, c.output(topic))
		c.Outputs.Writers++
	}
	c.callOutputs(path, s, stage)
	if len(c.Errs) == before {
		c.plan.Calls = append(c.plan.Calls, stage)
		c.add(node{op: stage, waves: c.Fed(stage.When) || c.FedSlots(stage.Inputs...)})
	}
}

func (c *compiler) callOutputs(path string, s *lang.Call, stage *operator.Call) {
	for _, o := range s.Outputs {
		at := path + ".outputs." + o.Name
		t, err := value.ParseType(o.Type)
		if err != nil {
			c.Fail(at, "%v", err)
			c.Names.Broken[o.Name] = true
			continue
		}
		t.Optional = t.Optional || s.When != ""
		if !c.Identifier(at, o.Name) {
			continue
		}
		if slot, ok := c.Make(at, o.Name, t); ok {
			stage.Outputs = append(stage.Outputs, slot)
		}
	}
}
