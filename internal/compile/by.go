package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// asking holds the features of a pipeline with the same By field.
type asking struct {
	by   string
	list []*steps.Feature
}

// askings groups the features with By by that field, in the order of the fields' first
// mention in the file.
func askings(p *lang.Pipeline) (all []asking) {
	for _, f := range steps.Asked(p) {
		at := slices.IndexFunc(all, func(a asking) bool { return a.by == f.By })
		if at < 0 {
			at, all = len(all), append(all, asking{by: f.By})
		}
		all[at].list = append(all[at].list, f)
	}
	return all
}

// delay returns the delay of the features, or 0 if they have none.
func (a *asking) delay() time.Duration {
	for _, f := range a.list {
		if f.Delay != 0 {
			return f.Delay
		}
	}
	return 0
}

// checkAskings reports features that no stage can compute.
func checkAskings(b *bound, nodes []lang.Node, found *lang.Findings) {
	queue := slices.IndexFunc(nodes, func(n lang.Node) bool { return n.Place().Queues != lang.QueuesNone })
	for _, a := range askings(b.Pipeline) {
		for path, f := range steps.Asked(b.Pipeline) {
			switch {
			case f.By != a.by || f.Delay == 0:
			case f.Delay != a.delay():
				found.Fail(path+".delay", "another feature by %s has a delay of %v: all features by one field share a delay", f.By, a.delay())
			case queue >= 0:
				found.Fail(path+".delay", "%s may queue events: the stage by %s would stop while they wait", nodes[queue].Path, f.By)
				found.Hint("remove async of that step, and call of its model")
			}
		}
	}
	if b.read.Arrival && len(askings(b.Pipeline)) > 0 {
		for path, f := range steps.Asked(b.Pipeline) {
			found.Fail(path+".by", "features by %s need order: time", f.By)
			found.Hint("remove order: arrival")
		}
	}
}

// stages returns the plans of the stages of other keys, without the fingerprint of outputs.
func stages(b *bound) (plans []task.Plan, err error) {
	for _, a := range askings(b.Pipeline) {
		plan, err := a.stage(b)
		if err != nil {
			return nil, fmt.Errorf("features of pipeline %q by %s: %w", b.Pipeline.Name, a.by, err)
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// stage returns the plan of a stage. It compiles the stage like a separate pipeline. The events of
// that pipeline have the fields that the features use.
func (a *asking) stage(b *bound) (task.Plan, error) {
	name := naming.By(b.Pipeline.Name, a.by)
	fields, lets := steps.Projected(b.Pipeline, a.list, b.IsField)
	of := &steps.Stage{By: a.by, List: a.list}
	p := &lang.Pipeline{Name: name, Inputs: b.Pipeline.Inputs, Constants: b.Pipeline.Constants, Steps: append(lets, of)}
	s := lang.NewScope(p)
	c := &reader{s, read{}}
	c.meta(true)
	c.Time = operator.Timing{Lateness: b.read.Time.Lateness, EventTime: b.read.Time.EventTime, Late: operator.LateInclude}
	c.read.Topic, c.MaxBytes, c.Slack = name, b.read.MaxBytes, b.read.Slack
	for _, from := range b.read.Sources {
		from.Fields, from.Envelope = c.projected(b, from.Fields, fields), envelope.None // an ask names the fields directly
		c.Sources = append(c.Sources, from)
	}
	c.Key, _ = s.Names.Schema.Lookup(a.by)
	bindConstants(s)
	s.Steps("steps", p.Steps)
	if len(s.Errs) > 0 {
		return task.Plan{}, s.Errs[0]
	}
	c.Staged = task.Staged{Delay: a.delay(), Answers: &task.AnswersPlan{By: a.by, Columns: of.Columns}}
	run := schedule(s.Nodes)
	shared := lang.Plan{}
	placed := stagesOf(s.Nodes, run, &shared, nil)
	for i := range placed { // the lets use only fields that an ask has
		if let, ok := placed[i].Operator.(*operator.Let); ok {
			placed[i].Operator = operator.Asked{Operator: let}
		}
	}
	keys, err := keysOf(shared.Features)
	if err != nil {
		return task.Plan{}, err
	}
	return task.Plan{
		Name: name, DeadTopic: deadletter.Topic(b.Pipeline.Name), Schema: s.Names.Schema, Input: c.Input, Stages: placed, Waves: run.waves,
		Keys: keys, Outputs: []string{b.read.Topic},
		Fingerprint: generation.Fingerprint{Pipeline: name, State: a.stored(b, of)},
	}, nil
}

// projected introduces the fields of a source that a stage decodes.
func (c *reader) projected(b *bound, all []decode.Field, wanted map[string]bool) (list []decode.Field) {
	for _, f := range all {
		if !wanted[f.Name] {
			continue
		}
		slot, ok := c.Names.Schema.Lookup(f.Name)
		if !ok {
			slot, _ = c.Field("inputs", f.Name, f.Slot.Type)
		}
		list = append(list, decode.Field{Name: f.Name, Slot: slot})
	}
	return list
}

// stored returns the state that a stage keeps beside a partition.
func (a *asking) stored(b *bound, of *steps.Stage) (all []generation.Kept) {
	for _, in := range copied(b.Pipeline) {
		all = append(all, keptOf(&in)[0])
	}
	meaning := b.Pipeline.Meaning(func(name string) string { return typeOf(b.Names.Schema, name) })
	for _, part := range of.Keeps(meaning) {
		all = append(all, generation.KeptOf(part.Kind, part.Name, part.Text+"kept=by "+a.by+"\n"))
	}
	return all
}

// ask makes the pipeline wait for the answers of stages, and send them delayed values. It returns
// the plans of the repartitioners, which ask the stages.
func ask(b *bound, plan *task.Plan) (copies []task.Plan) {
	copies = slices.Clone(b.read.copies)
	for i := range copies {
		of := *copies[i].Copy
		of.Late, copies[i].Copy = b.read.Time.Late == operator.LateInclude, &of
		copies[i].Outputs = slices.Clone(copies[i].Outputs)
	}
	for _, a := range askings(b.Pipeline) {
		topic := naming.By(b.Pipeline.Name, a.by)
		fields, _ := steps.Projected(b.Pipeline, a.list, b.IsField)
		for i := range copies {
			from := &copies[i]
			from.Outputs, from.Copy.Stages = append(from.Outputs, topic), append(from.Copy.Stages, topic)
			if by, ok := from.Schema.Lookup(a.by); ok {
				from.Copy.Asks = append(from.Copy.Asks, task.Ask{Topic: topic, By: by, Fields: slotsOf(from.Fields, fields)})
			}
		}
		plan.Asked = append(plan.Asked, a.by)
		if a.delay() > 0 {
			plan.Returns = append(plan.Returns, task.Return{By: a.by, Topic: topic, Said: said(plan.Stages, a.by)})
		}
	}
	return copies
}

// slotsOf returns the slots of the wanted fields.
func slotsOf(fields []decode.Field, wanted map[string]bool) (slots []value.Slot) {
	for _, f := range fields {
		if wanted[f.Name] {
			slots = append(slots, f.Slot)
		}
	}
	return slots
}

// said returns the delayed values that events send to the stage for a field.
func said(stages []operator.Placed, by string) (list []operator.Said) {
	for i := range stages {
		if r, ok := stages[i].Operator.(*operator.Return); ok && r.By == by {
			list = append(list, operator.Said{Feature: r.Feature, Slot: r.Slot})
		}
	}
	return list
}

// Way describes the path of events through stages of other keys: `payments -> by-merchant (shop),
// by-device (phone) -> repartition (spend, score): 3 commits`. It returns "" if the pipeline has no
// such stages.
func (c *Compiled) Way() string {
	var by []string
	for _, a := range askings(&c.Pipeline) {
		var names []string
		for _, f := range a.list {
			names = append(names, f.Name)
		}
		by = append(by, fmt.Sprintf("by-%s (%s)", a.by, strings.Join(names, ", ")))
	}
	if by == nil {
		return ""
	}
	return fmt.Sprintf("%s -> %s -> repartition%s: 3 commits", strings.Join(c.Inputs(), ", "), strings.Join(by, ", "), c.own())
}

// own lists the features and calls for the pipeline's own key.
func (c *Compiled) own() string {
	var names []string
	for i := range c.Plan.Stages {
		switch op := c.Plan.Stages[i].Operator.(type) {
		case *operator.Features:
			for _, f := range op.List {
				if f.Read {
					names = append(names, f.Name)
				}
			}
		case operator.Batched:
			_, name := op.Label()
			names = append(names, name)
		}
	}
	return cmp.Or(strings.TrimSuffix(" ("+strings.Join(names, ", ")+")", " ()"), "")
}
