package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/model"
)

// Defaults of a pipeline.
const (
	DefaultPartitions = 4
	DefaultKeep       = 30 * 24 * time.Hour // silence after which last and elapsed forget a key
)

// compiler turns a Pipeline into a task.Plan, and gathers everything wrong with
// it on the way.
type compiler struct {
	*lang.Scope
	plan     *task.Plan
	res      *lang.Resources
	named    []NamedModel // those that are open, in order
	lowered  lang.Plan    // what operators share
	rows     bool         // end before the first score whose model cannot be loaded
	reach    bool         // what runs models has to be there
	options  Options
	backlogs map[string]control.GateOptions // by topic
}

// Options say how a pipeline is compiled. They do not change its results.
type Options struct {
	Endpoints  *control.Endpoints // services that pipelines share; nil shares nothing
	Rows       bool               // end before the first score whose model cannot be loaded, and need no emit
	Reach      bool               // what runs models outside of the process has to be there
	NoPrograms bool               // run no program that a manifest names
	Announce   func(text string)  // is told of each such program before it is run; nil is not
	ModelKinds []model.Kind       // that manifests may name, beside those that the pipeline brings
}

// Compiled is a pipeline made ready: the plan of its steps and, where its
// topics are copied to one of its own first, those of the copying.
type Compiled struct {
	Pipeline lang.Pipeline

	Plan   *task.Plan
	Copies []*task.Plan
	Models []NamedModel
	Sinks  []Sunk
	Budget observe.Budget
	Finds  []lang.Finder

	Fetcher *fetch.Fetcher // nil without fetches

	Backlogs map[string]control.GateOptions // by topic
	Opened   []model.Model                  // to be closed
	Warnings []string

	Canonical string // text that decides outputs
}

// Name returns the pipeline's name, which is also its consumer group.
func (c *Compiled) Name() string { return c.Plan.Name }

// Input returns the topic that the pipeline reads: the first of several.
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

// Tables returns the topics whose records are the rows that the pipeline looks up.
func (c *Compiled) Tables() []string { return table.Topics(c.Plan.Tables) }

// Outputs returns the topics that the pipeline writes, dead letters last.
func (c *Compiled) Outputs() []string { return c.Plan.Topics() }

// Close closes what was opened for the pipeline.
func (c *Compiled) Close() {
	closeModels(c.Opened)
	if c.Fetcher != nil {
		c.Fetcher.Close()
	}
}

// Compile checks p and makes it ready to run. What is wrong with it is returned as
// Errors, all at once.
func Compile(p lang.Pipeline, options Options) (made *Compiled, err error) {
	c := &compiler{
		options: options, rows: options.Rows, reach: options.Reach,
		Scope: lang.NewScope(&p), backlogs: map[string]control.GateOptions{},
	}
	c.res = &lang.Resources{
		Findings: c.Findings, Pipeline: &p, Endpoints: cmp.Or(options.Endpoints, &control.Endpoints{}),
		Models: map[string]lang.Loaded{}, Inline: c.openInline,
	}
	defer func() {
		if err != nil {
			closeModels(c.res.Opened)
			if c.res.Fetcher != nil {
				c.res.Fetcher.Close()
			}
		}
	}()
	c.plan = &task.Plan{Name: p.Name, DeadTopic: deadletter.Topic(p.Name), Schema: c.Names.Schema, Keys: task.Keys{Keep: DefaultKeep}}
	c.header()
	copies := c.inputs()
	c.Topic, c.ID = c.plan.Topic, c.plan.Meta.ID
	c.constants()
	c.fairness()
	c.loadModels()
	c.Names.Later = lang.DeclaredIn(&p)
	if c.rows {
		c.Absent = func(name string) bool { _, open := c.res.Models[name]; return !open }
	}
	c.Steps("steps", p.Steps)
	c.openSteps()
	c.plan.Outputs, c.plan.Tables, c.plan.Cases = c.Outputs.Topics, c.Tables, c.Cases
	c.plan.Shared, c.plan.Journal = c.res.Shared, c.res.Journal
	c.misplaced()
	c.queueing()
	c.arrange()
	c.parking()
	c.turns()
	if c.plan.Ordered && len(c.plan.Groups.Groups) > 0 {
		c.Fail("steps", "events of a key are queued behind each other, which those of groups have no place among")
		c.Hint("remove ordered: true, and features of what a model that may be down answers")
	}
	c.plan.Groups.Schema = c.Names.Schema
	for _, name := range c.Fields {
		slot, _ := c.Names.Schema.Lookup(name)
		c.plan.Groups.Fields = append(c.plan.Groups.Fields, slot)
	}
	if c.Outputs.Writers == 0 && !c.rows && len(c.Errs) == 0 {
		c.Fail("steps", "nothing is emitted, so the pipeline would have no effect")
		c.Hint("add an emit step")
	}
	c.answers()
	sinks := c.sinks()
	if len(c.Errs) > 0 {
		return nil, c.declarations()
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	for i := range sinks {
		sinks[i].Topic.Fingerprint = c.plan.Fingerprint.Outputs
	}
	for i, from := range copies {
		from.Fingerprint.Outputs = c.plan.Fingerprint.Outputs
		copies[i] = task.NewPlan(*from)
	}
	if c.plan.Feedback {
		c.Warnings = append(c.Warnings, "features read past predictions, or lookups rows that the pipeline writes, so the events of one key are scored one after the other: throughput is at most 1 / (share of the hottest key x time of a model call)")
	}
	return &Compiled{p, c.plan, copies, c.named, sinks, c.res.Budget, c.res.Finds, c.res.Fetcher, c.backlogs, c.res.Opened, c.Warnings, c.canonical()}, nil
}

// openSteps opens what steps need. One that is not there is a finding.
func (c *compiler) openSteps() {
	var nodes []lang.Node
	for _, n := range c.Nodes {
		if o, ok := n.Bound.(lang.Opener); ok {
			if n.Bound = o.Open(c.res); n.Bound == nil {
				continue
			}
		}
		nodes = append(nodes, n)
	}
	c.Nodes = nodes
}

func closeModels(opened []model.Model) {
	for _, m := range opened {
		models.Close(m)
	}
}

func (c *compiler) header() {
	p := c.Pipeline
	if !naming.Valid(p.Name) {
		c.Fail("pipeline", "%q is not a name: use letters, digits, '_' and '-', at most 100", p.Name)
	}
	if naming.ReservedPipeline(p.Name) {
		c.Fail("pipeline", "%q is reserved for topics of the engine: use another name", p.Name)
	}
	switch p.Delivery {
	case "", lang.ExactlyOnce, lang.AtLeastOnce, lang.AtMostOnce:
	default:
		c.Fail("delivery", "unknown mode %q: use exactly-once, at-least-once or at-most-once", p.Delivery)
	}
	if p.Commit.Interval < 0 || p.Commit.Interval > time.Minute {
		c.Fail("commit.interval", "%v is out of range: use 0 to 1m", p.Commit.Interval)
	}
	if p.Commit.Size < 0 || p.Commit.Size > 1<<20 {
		c.Fail("commit.size", "%d is out of range: use 1 to 1048576 events", p.Commit.Size)
	}
	c.lag(p.Lag)
	if s := p.DeadLetters.StopAbove; s != (spec.Share{}) && !(s.Of > 0 && s.Of < 1 && s.Per >= time.Second && s.Per <= time.Hour) {
		c.Fail("dlq.stop_above", "%v%%/%v is out of range: use a share above 0%% and below 100%% and a time from 1s to 1h", s.Of*100, s.Per)
	}
	c.res.Budget = c.budget(p.Budget)
}

func (c *compiler) lag(l lang.Lag) {
	for _, at := range []struct {
		path string
		time.Duration
	}{{"lag.warn", l.Warn}, {"lag.critical", l.Critical}} {
		if at.Duration != 0 && (at.Duration < time.Second || at.Duration > 30*24*time.Hour) {
			c.Fail(at.path, "%v is out of range: use 1s to 720h", at.Duration)
		}
	}
	if l.Critical != 0 && l.Critical < l.Warn {
		c.Fail("lag.critical", "%v is below warn, %v", l.Critical, l.Warn)
		c.Hint("a pipeline is late before it is too late: make warn the shorter one")
	}
}

func (c *compiler) constants() {
	for _, k := range c.Pipeline.Constants {
		path := "constants." + k.Name
		if !c.Identifier(path, k.Name) {
			continue
		}
		if _, ok := c.Names.Schema.Lookup(k.Name); ok {
			c.Fail(path, "%q is a field already: names are one flat set without shadowing", k.Name)
			continue
		}
		if (k.Value == nil) == (k.Table == nil) {
			c.Fail(path, "a constant is a scalar or a table of scalars")
			continue
		}
		c.Names.Constants[k.Name] = expression.Constant{Value: k.Value, Table: k.Table}
	}
}

func (c *compiler) loadModels() {
	for _, m := range c.Pipeline.Models {
		path := "models." + m.Name
		if !c.Identifier(path, m.Name) {
			continue
		}
		if m.Version < 1 {
			c.Fail(path+".version", "%d is not a version: use a number from 1 that changes with the file", m.Version)
		}
		c.res.Share(path, m.Call)
		types, ok := c.outputTypes(path+".outputs", m.Outputs)
		if ok {
			c.Answers[m.Name] = types
		}
		if m.Inline() { // its inputs are those of the first score that uses it
			c.whereModel(path, &m)
			continue
		}
		if loaded := c.loadModel(path, &m); loaded != nil && ok {
			if known, ok := c.loaded(path, &m, loaded); ok {
				c.res.Models[m.Name] = known
			}
		}
	}
}

// loaded notes a model whose outputs are as the file says.
func (c *compiler) loaded(path string, m *lang.Model, loaded model.Model) (known lang.Loaded, ok bool) {
	if !c.answersAs(path+".outputs", c.Answers[m.Name], loaded.Info().WithoutState()) {
		return known, false
	}
	c.checkOutputs(path, m)
	known = lang.Loaded{Model: loaded, Name: fmt.Sprintf("%s@%d", m.Name, m.Version), Asks: generation.Hash(m.Canonical()), Calling: c.modelCalling(path, m, loaded)}
	c.named = append(c.named, NamedModel{m.Name, m.Version, m.Outputs, loaded})
	pinned := known.Name
	if digest := loaded.Info().Digest; digest != "" {
		pinned += " sha256:" + digest
	}
	c.plan.Models = append(c.plan.Models, pinned)
	return known, true
}

// whereModel checks that a model has one place.
func (c *compiler) whereModel(path string, m *lang.Model) bool {
	places := 0
	for _, there := range []bool{m.File != "", m.Go != "", m.URL != "", m.Process != nil} {
		if there {
			places++
		}
	}
	if places > 1 {
		c.Fail(path, "a model has one of a file, a name in Go, a url and a process")
	}
	return places <= 1
}

// checkOutputs refuses the names of a manifest's outputs in another order.
func (c *compiler) checkOutputs(path string, m *lang.Model) {
	if m.Manifest == nil || len(m.Manifest.Outputs) != len(m.Outputs) {
		return
	}
	given, taken := make([]string, len(m.Outputs)), make([]string, len(m.Outputs))
	for i := range m.Outputs {
		given[i], taken[i] = m.Outputs[i].Name, m.Manifest.Outputs[i].Name
	}
	if !slices.Equal(given, taken) && slices.Equal(slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(taken))) {
		c.Fail(path+".outputs", "the manifest has them in another order: %s", strings.Join(taken, ", "))
	}
}

// loadModel returns a model, nil where there is none.
func (c *compiler) loadModel(path string, m *lang.Model) model.Model {
	if m.Trees != "" && m.File == "" {
		c.Fail(path+".trees", "only the trees of a file can be chosen")
		c.Hint("remove it")
	}
	switch {
	case !c.whereModel(path, m):
		return nil
	case m.Go != "":
		bound := c.Pipeline.Code.Models[m.Go]
		if bound == nil {
			c.Fail(path+".go", "no model is bound to %q", m.Go)
			c.Hint("bind it in Pipeline.Code.Models of a program that embeds the library; the afterbay command has none")
		}
		return bound
	case m.File == "":
		c.Fail(path+".file", "missing: name a model of trees, XGBoost .json or .ubj, LightGBM .txt, CatBoost .json or .onnx, or a text model")
		return nil
	}
	loaded, err := c.open(path, m)
	var found models.Errors
	switch {
	case err == nil:
		if open := loaded.Info().Ambiguous; open != "" {
			c.Warnings = append(c.Warnings, path+": "+open)
		}
		return loaded
	case c.rows && errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &found):
		for _, e := range found {
			c.Errs = append(c.Errs, &spec.Problem{Path: path + ".manifest." + e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
	case m.Manifest == nil && model.IsManifest(m.File) && !errors.Is(err, fs.ErrNotExist):
		c.Fail(path+".file", "the manifest %s was not read", m.File)
		c.Hint("mend what is wrong with it; in Go, config.LoadManifest reads one")
	default:
		c.Fail(path+".file", "%v", err)
		if errors.Is(err, fs.ErrNotExist) {
			c.Hint("name a file that is there; its path is relative to the pipeline file")
		}
	}
	return nil
}

// open loads the file of a model, and verifies what its manifest says.
func (c *compiler) open(path string, m *lang.Model) (model.Model, error) {
	if m.Manifest == nil {
		return models.FileWith(m.File, models.Options{Trees: m.Trees})
	}
	if m.Trees != "" {
		c.Fail(path+".trees", "the model has a manifest, which says it")
		c.Hint("write trees: " + m.Trees + " in the manifest")
	}
	if m.Version != m.Manifest.Version {
		c.Fail(path+".version", "%d, where its manifest says %d", m.Version, m.Manifest.Version)
		c.Hint("write the version whose file it is: both are raised with the file")
	}
	return c.openManifest(path, m.Manifest)
}

// openManifest opens the model of a manifest, which is closed with the pipeline.
func (c *compiler) openManifest(path string, m *model.Manifest) (model.Model, error) {
	opening := models.Opening{Kinds: c.modelKinds(), Announce: c.options.Announce}
	if _, runs := models.ConfigOf(m, opening.Kinds).(model.Program); runs && c.options.NoPrograms {
		loaded, err := models.Declared(context.Background(), m, opening)
		if err != nil {
			return nil, err
		}
		c.res.Opened = append(c.res.Opened, loaded)
		c.Warnings = append(c.Warnings, path+": the model's program was not run: `afterbay model verify` with its manifest runs it, and `afterbay try`")
		return loaded, nil
	}
	open := models.Started
	if c.reach {
		open = models.Verified
	}
	loaded, report, err := open(context.Background(), m, opening)
	if err != nil {
		return nil, err
	}
	c.res.Opened = append(c.res.Opened, loaded)
	if report.Away != nil {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: the model does not answer, and events that need it wait until it does: %v", path, report.Away))
	}
	return loaded, nil
}

// modelKinds returns the kinds of models that manifests may name.
func (c *compiler) modelKinds() []model.Kind {
	return slices.Concat(c.options.ModelKinds, c.Pipeline.Code.ModelKinds)
}

// finish builds the feature sets and the fingerprint.
func (c *compiler) finish() error {
	plan := c.plan
	for i, specs := range c.lowered.Features {
		if len(specs) == 0 {
			continue
		}
		set, err := feature.NewSet(specs)
		if err != nil {
			return fmt.Errorf("features of pipeline %q: %w", plan.Name, err)
		}
		plan.Retention = max(plan.Retention, set.Retention())
		if i == 0 {
			plan.Early = set
		} else {
			plan.Late = set
		}
	}
	if plan.Retention == 0 {
		plan.Retention = plan.Keep
	}
	plan.Keep = max(plan.Keep, plan.Retention)
	plan.Fingerprint = c.fingerprint()
	c.plan = task.NewPlan(*plan)
	return nil
}

// NamedModel is a loaded model of a pipeline.
type NamedModel struct {
	Name    string
	Version int
	Outputs []lang.Field // names of its scores
	Model   model.Model
}
