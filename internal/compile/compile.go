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
	"github.com/afterbay/afterbay/internal/event/value"
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
	"github.com/afterbay/afterbay/internal/task/operator"
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
	plan      *task.Plan
	models    map[string]loadedModel
	named     []NamedModel       // those, in order
	lowered   lang.Plan          // what operators share
	rows      bool               // end before the first score whose model cannot be loaded
	reach     bool               // what runs models has to be there
	opened    []model.Model      // of manifests, and of lookups, which are to be closed
	finds     []Finder           // of lookups outside of the log
	fetcher   *fetch.Fetcher     // nil without fetches
	contents  map[string]fetched // by name
	options   Options
	endpoints *control.Endpoints
	allowed   observe.Budget
	backlogs  map[string]control.GateOptions // by topic
	ownRows   string                         // path of a lookup of rows that the pipeline writes; "" is none
}

type loadedModel struct {
	model.Model
	name    string // name@version
	asks    string // hash of the fields that decide its answers
	outputs []lang.Field
	types   []value.Type      // of outputs
	calling *operator.Calling // nil where it is called at once
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
	Finds  []Finder

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
		options: options, models: map[string]loadedModel{}, rows: options.Rows, reach: options.Reach,
		Scope: lang.NewScope(&p), endpoints: cmp.Or(options.Endpoints, &control.Endpoints{}), backlogs: map[string]control.GateOptions{},
	}
	defer func() {
		if err != nil {
			closeModels(c.opened)
			if c.fetcher != nil {
				c.fetcher.Close()
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
	c.Other = c.step
	c.Steps("steps", p.Steps)
	c.plan.Outputs, c.plan.Calls, c.plan.Cases = c.Outputs.Topics, c.Calls, c.Cases
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
	return &Compiled{p, c.plan, copies, c.named, sinks, c.allowed, c.finds, c.fetcher, c.backlogs, c.opened, c.Warnings, c.canonical()}, nil
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
	c.allowed = c.budget(p.Budget)
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
		c.share(path, m.Call)
		if isInline(&m) { // its inputs are those of the first score that uses it
			c.whereModel(path, &m)
			continue
		}
		if loaded := c.loadModel(path, &m); loaded != nil {
			c.loaded(path, &m, loaded)
		}
	}
}

// loaded notes a model whose outputs are as the file says.
func (c *compiler) loaded(path string, m *lang.Model, loaded model.Model) (known loadedModel, ok bool) {
	types, ok := c.outputTypes(path+".outputs", m.Outputs, loaded.Info().WithoutState())
	if !ok {
		return known, false
	}
	c.checkOutputs(path, m)
	known = loadedModel{Model: loaded, name: fmt.Sprintf("%s@%d", m.Name, m.Version), asks: generation.Hash(m.Canonical()), outputs: m.Outputs, types: types, calling: c.modelCalling(path, m, loaded)}
	c.models[m.Name] = known
	c.named = append(c.named, NamedModel{m.Name, m.Version, m.Outputs, loaded})
	pinned := known.name
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
		c.opened = append(c.opened, loaded)
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
	c.opened = append(c.opened, loaded)
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
