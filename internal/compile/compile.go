package compile

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/model"
)

// Defaults of a pipeline.
const (
	DefaultPartitions = 4
	DefaultKeep       = 30 * 24 * time.Hour // idle time after which last and elapsed forget a key
)

// Compiled is a pipeline that is ready to run. It holds the plan of its steps and, if its topics
// are copied to its repartition topic, the plans of the copying.
type Compiled struct {
	Pipeline lang.Pipeline

	Plan   *task.Plan
	Copies []*task.Plan
	Asked  []*task.Plan // plans of the stages of other keys
	Models []NamedModel
	Sinks  []Sunk
	Budget observe.Budget
	Finds  []lang.Finder
	Scored []lang.Scored // scores of events, in the order of the file

	Fetcher *fetch.Fetcher     // nil if the pipeline has no fetch step
	Encoded []string           // topics that an emit writes with a format
	Schemas *registry.Registry // nil if no input, table or output needs the registry

	Backlogs map[string]control.GateOptions // by topic
	Warnings []string
	Took     Took // time of each pass

	Canonical string // text that decides outputs

	open          *opened
	registrations []registration // schemas of outputs
	rows          []lang.Rows    // rows that lookups read
}

// SchemaStats counts the requests to a schema registry.
type SchemaStats = registry.Stats

// Name returns the pipeline's name, which is also its consumer group.
func (c *Compiled) Name() string { return c.Plan.Name }

// Input returns the topic that the pipeline reads, or the first if there are several.
func (c *Compiled) Input() string { return c.Inputs()[0] }

// Inputs returns the topics that the pipeline reads.
func (c *Compiled) Inputs() []string {
	if len(c.Copies) == 0 {
		return []string{c.Plan.Topic}
	}
	var topics []string
	for _, from := range c.Copies {
		topics = append(topics, from.Topic)
	}
	return topics
}

// Tables returns the topics that the pipeline looks up as tables.
func (c *Compiled) Tables() []string { return table.Topics(c.Plan.Tables) }

// Outputs returns the topics that the pipeline writes, dead letters last.
func (c *Compiled) Outputs() []string { return c.Plan.Topics() }

// Close closes the resources opened for the pipeline.
func (c *Compiled) Close() { c.open.Close() }

// Compile checks p and makes it ready to run. It returns all errors together as Errors.
//
// It runs passes with values in between. Each pass reads the values of those before it and changes
// none; only the opening reads anything but its arguments. The opening has two parts. Models are
// opened before steps are bound, because a score of a missing model may end the steps.
func Compile(p lang.Pipeline, options Options) (made *Compiled, err error) {
	var (
		models, open *opened
		b            *bound
		nodes        []lang.Node
		facts        *checked
		run          order
		plan         task.Plan
		others       beside
		text         string
		kept         [2][]feature.Spec
	)
	p = steps.WithHome(p, DefaultPartitions)
	each := newPasses(options.watch)
	each.run(PassOpen, func() { models = openModels(&p, options) }, &p)
	each.run(PassBind, func() { b = bind(&p, models, options.Rows) }, &p, models)
	each.run(PassOpen, func() { open, nodes = openSteps(b, models, options) }, &p, b, models)
	defer func() {
		if err != nil {
			open.Close()
		}
	}()
	each.run(PassCheck, func() { facts = check(b, nodes, options, open) }, &p, b, nodes, open)
	if len(facts.errs) > 0 {
		return nil, facts.errs
	}
	each.run(PassSchedule, func() { run = schedule(nodes) }, nodes)
	each.run(PassLower, func() { plan, others, kept, err = lower(b, nodes, open, facts, run) }, &p, b, nodes, open, facts, run)
	if err != nil {
		return nil, err
	}
	each.run(PassFingerprints, func() { text, plan.Fingerprint = fingerprints(b, open, plan.Calls, kept) }, &p, b, open, plan.Calls, kept)
	return &Compiled{
		Pipeline: p, Plan: task.NewPlan(plan), Copies: plansOf(others.copies, plan.Fingerprint.Outputs), Asked: plansOf(others.stages, plan.Fingerprint.Outputs), Models: open.named, Sinks: sunk(facts.sinks, plan.Fingerprint.Outputs),
		Budget: b.budget, Finds: open.Finds, Fetcher: open.Fetcher, Schemas: open.registry, Encoded: encodedTopics(&b.Outputs), registrations: open.registrations, rows: b.Rows, Scored: b.Scored, Backlogs: b.read.backlogs, Warnings: facts.warnings, Canonical: text, Took: each.took, open: open,
	}, nil
}

// plansOf returns the plans other than that of the pipeline, with the fingerprint of its outputs.
func plansOf(all []task.Plan, outputs string) (plans []*task.Plan) {
	for _, plan := range all {
		plan.Fingerprint.Outputs = outputs
		plans = append(plans, task.NewPlan(plan))
	}
	return plans
}

// sunk returns the sinks with the fingerprint of the outputs that they write.
func sunk(checked []Sunk, outputs string) []Sunk {
	list := slices.Clone(checked)
	for i := range list {
		list[i].Topic.Fingerprint = outputs
	}
	return list
}

// NamedModel is a loaded model of a pipeline.
type NamedModel struct {
	Name    string
	Version int
	Outputs []lang.Field // names of its scores
	Model   model.Model
}
