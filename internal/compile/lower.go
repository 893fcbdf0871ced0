package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// beside holds the plans other than that of the pipeline, without the fingerprint of outputs.
type beside struct {
	copies []task.Plan // plans that copy its topics
	stages []task.Plan // plans of stages of other keys
}

// lower makes the operators of a pipeline in execution order, and all of its plans without the
// fingerprint. It also returns the features in log order and those in waves.
func lower(b *bound, nodes []lang.Node, open *opened, c *checked, o order) (plan task.Plan, others beside, features [2][]feature.Spec, err error) {
	shared := lang.Plan{Tables: b.Tables, Encoders: open.encoders}
	placed := stagesOf(nodes, o, &shared, open.instead)
	plan = task.Plan{
		Name: b.Pipeline.Name, DeadTopic: deadletter.Topic(b.Pipeline.Name), Schema: b.Names.Schema, Input: open.formatted(b.input()),
		Stages: placed, Cases: b.Cases, Waves: o.waves, Feedback: c.feedback,
		Async:  task.Async{Ordered: c.ordered, Queue: c.queue, Fairness: b.turns, Journal: open.Journal},
		Groups: group.Plan{Groups: groupsOf(placed), Schema: b.Names.Schema}, Joins: join.Plan{Join: joinOf(placed), Schema: b.Names.Schema},
		Tables: b.Tables, Outputs: topicsOf(b), Ends: endsOf(b.Pipeline, placed), Models: open.pinned, Calls: shared.Calls, Shared: open.Shared,
	}
	for _, name := range b.Fields {
		slot, _ := b.Names.Schema.Lookup(name)
		plan.Groups.Fields = append(plan.Groups.Fields, slot)
	}
	plan.Joins.Fields = plan.Groups.Fields
	if plan.Keys, err = keysOf(shared.Features); err != nil {
		return plan, others, features, fmt.Errorf("features of pipeline %q: %w", plan.Name, err)
	}
	if others.stages, err = stages(b); err != nil {
		return plan, others, features, err
	}
	others.copies = ask(b, &plan)
	for i := range others.copies {
		others.copies[i].Input = open.formatted(others.copies[i].Input)
	}
	return plan, others, shared.Features, nil
}

// stagesOf returns the operators of nodes in execution order. It creates them in the order of the
// file, because creation numbers their shared parts. instead may be nil.
func stagesOf(nodes []lang.Node, o order, shared *lang.Plan, instead func(operator.Batch) model.Model) (stages []operator.Placed) {
	ops := map[placed]operator.Operator{}
	for _, p := range slices.SortedFunc(slices.Values(o.stages), func(a, b placed) int { return cmp.Or(a.node-b.node, a.read-b.read) }) {
		ops[p] = nodes[p.node].Lower(shared, lang.At{Waves: p.read >= 0 || o.inWaves(p.node), Read: p.read})
		if b, ok := ops[p].(operator.Batched); ok && instead != nil {
			b.How().Model = instead(*b.How())
		}
	}
	for _, p := range o.stages {
		stages = append(stages, operator.Placed{Operator: ops[p], Guard: nodes[p.node].Guards.Innermost()})
	}
	return stages
}

// groupsOf returns the groups of stages, by index.
func groupsOf(stages []operator.Placed) (all []*operator.Group) {
	for i := range stages {
		if g, ok := stages[i].Operator.(*operator.Group); ok {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *operator.Group) int { return a.Index - b.Index })
	return all
}

// joinOf returns the join of stages, or nil.
func joinOf(stages []operator.Placed) *operator.Join {
	for i := range stages {
		if j, ok := stages[i].Operator.(*operator.Join); ok {
			return j
		}
	}
	return nil
}

// keysOf returns the keyed state of the features in log order and of those in waves.
func keysOf(features [2][]feature.Spec) (keys task.Keys, err error) {
	var sets [2]*feature.Set
	for i, specs := range features {
		if len(specs) == 0 {
			continue
		}
		if sets[i], err = feature.NewSet(specs); err != nil {
			return keys, err
		}
		keys.Retention = max(keys.Retention, sets[i].Retention())
	}
	keys.Early, keys.Late = sets[0], sets[1]
	keys.Retention = cmp.Or(keys.Retention, DefaultKeep)
	keys.Keep = max(DefaultKeep, keys.Retention)
	return keys, nil
}

// topicsOf returns the topics that a pipeline writes, except that of dead letters.
func topicsOf(b *bound) []string {
	topics := slices.Clone(b.Outputs.Topics)
	if ended := Ended(b.Pipeline.Name); len(b.Pipeline.Replies) > 0 && !slices.Contains(topics, ended) {
		topics = append(topics, ended)
	}
	return topics
}

// input returns the input of the pipeline, with the headers that its expressions read.
func (b *bound) input() task.Input {
	in := b.read.Input
	in.Meta.Headers = b.Names.Headers
	return in
}
