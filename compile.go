package afterbay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/tree"
	"github.com/afterbay/afterbay/task"
	"github.com/afterbay/afterbay/value"
)

// Defaults of a pipeline.
const (
	DefaultPartitions = 4
	DefaultMaxBytes   = 1 << 20
	DefaultMaxAhead   = time.Hour
	DefaultKeep       = 30 * 24 * time.Hour // silence after which last and elapsed forget a key
	maxEmits          = 64
)

// compiler turns a Pipeline into a task.Plan, and gathers everything wrong with
// it on the way.
type compiler struct {
	pipeline *Pipeline
	plan     *task.Plan
	errs     Errors
	names    names
	models   map[string]loadedModel
	specs    [2][]feature.Spec // early and late
	waiting  []*waitingFeature // feedback features whose value is not introduced yet
	reads    []task.Stage      // of feedback features, until the waves begin
	fedBack  map[string]bool   // names that only the waves know
	inWaves  bool
	emits    int
}

type loadedModel struct {
	model.Model
	name    string // name@version
	outputs []Field
}

func (c *compiler) fail(path string, format string, args ...any) {
	c.errs = append(c.errs, &Error{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) hint(hint string) { c.errs[len(c.errs)-1].Hint = hint }

// compile checks p and makes it ready to run.
func compile(p Pipeline) (*task.Plan, error) {
	c := &compiler{
		pipeline: &p, models: map[string]loadedModel{}, fedBack: map[string]bool{},
		names: names{schema: &value.Schema{}, constants: map[string]expression.Constant{}, broken: map[string]bool{}},
	}
	c.plan = &task.Plan{
		Name: p.Name, Topic: p.Input.Topic, DeadTopic: "dlq." + p.Name,
		Schema: c.names.schema, MaxBytes: cmpOr(p.Input.MaxBytes, DefaultMaxBytes), Keep: DefaultKeep,
	}
	c.header()
	c.input()
	c.constants()
	c.loadModels()
	c.names.later = laterNames(&p)
	for i := range p.Steps {
		c.step(fmt.Sprintf("steps[%d]", i), &p.Steps[i])
		c.resolveWaiting(false)
	}
	c.resolveWaiting(true)
	if !c.inWaves {
		c.plan.Waves = len(c.plan.Stages)
	}
	if c.emits == 0 && len(c.errs) == 0 {
		c.fail("steps", "nothing is emitted, so the pipeline would have no effect")
		c.hint("add an emit step")
	}
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	return c.plan, c.finish()
}

func cmpOr[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (c *compiler) header() {
	p := c.pipeline
	if !validName(p.Name) {
		c.fail("pipeline", "%q is not a name: use letters, digits, '_' and '-', at most 100", p.Name)
	}
	switch p.Delivery {
	case "", ExactlyOnce, AtLeastOnce, AtMostOnce:
	default:
		c.fail("delivery", "unknown mode %q: use exactly-once, at-least-once or at-most-once", p.Delivery)
	}
	if p.Commit.Interval < 0 || p.Commit.Interval > time.Minute {
		c.fail("commit.interval", "%v is out of range: use 0 to 1m", p.Commit.Interval)
	}
	if p.Commit.Size < 0 || p.Commit.Size > 1<<20 {
		c.fail("commit.size", "%d is out of range: use 1 to 1048576 events", p.Commit.Size)
	}
}

func validName(name string) bool {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

func validTopic(name string) bool {
	return validName(strings.ReplaceAll(name, ".", "")) && name != "." && name != ".."
}

// introduce adds a name of a step or field.
func (c *compiler) introduce(path, name string, t value.Type) (value.Slot, bool) {
	if _, ok := c.names.constants[name]; ok {
		c.fail(path, "%q is a constant already: names are one flat set without shadowing", name)
		return value.Slot{}, false
	}
	slot, err := c.names.schema.Add(name, t)
	if err != nil {
		c.fail(path, "%v", err)
		return value.Slot{}, false
	}
	return slot, true
}

func (c *compiler) identifier(path, name string) bool {
	ok := name != "" && name != "meta" && name != "event"
	for i, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && r >= '0' && r <= '9')
	}
	if !ok {
		c.fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit; meta and event are taken", name)
	}
	return ok
}

func (c *compiler) input() {
	in, plan := &c.pipeline.Input, c.plan
	if !validTopic(in.Topic) {
		c.fail("input.topic", "%q is not a topic name: use letters, digits, '.', '_' and '-'", in.Topic)
	}
	if in.Partitions < 0 || in.Partitions > 1024 {
		c.fail("input.partitions", "%d is out of range: use 1 to 1024", in.Partitions)
	}
	if plan.MaxBytes < 0 || plan.MaxBytes > DefaultMaxBytes {
		c.fail("input.max_bytes", "%d is out of range: use 1 to %d", in.MaxBytes, DefaultMaxBytes)
	}
	for _, meta := range []struct {
		name string
		kind value.Kind
		slot *value.Slot
	}{
		{"meta.id", value.String, &plan.Meta.ID}, {"meta.key", value.String, &plan.Meta.Key},
		{"meta.time", value.Time, &plan.Meta.Time}, {"meta.partition", value.Int, &plan.Meta.Partition},
		{"meta.offset", value.Int, &plan.Meta.Offset},
	} {
		*meta.slot, _ = c.names.schema.Add(meta.name, value.Type{Kind: meta.kind})
	}
	for _, f := range in.Fields {
		path := "input.fields." + f.Name
		t, err := value.ParseType(f.Type)
		if err != nil {
			c.fail(path, "%v", err)
			continue
		}
		if !c.identifier(path, f.Name) {
			continue
		}
		if slot, ok := c.introduce(path, f.Name, t); ok {
			plan.Fields = append(plan.Fields, decode.Field{Name: f.Name, Slot: slot})
		}
	}
	c.inputKey()
	c.inputTime()
}

func (c *compiler) inputKey() {
	in := &c.pipeline.Input
	slot, ok := c.names.schema.Lookup(in.Key)
	switch {
	case in.Key == "":
		c.fail("input.key", "missing: name the field that events share state and order by")
	case !ok || !c.isField(in.Key):
		c.fail("input.key", "%q is not one of input.fields", in.Key)
	case slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int:
		c.fail("input.key", "field %q is of type %v: a key is a string or int that is always there", in.Key, slot.Type)
	}
	c.plan.Key = slot
}

func (c *compiler) isField(name string) bool {
	return slices.ContainsFunc(c.pipeline.Input.Fields, func(f Field) bool { return f.Name == name })
}

var timeUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

var latePolicies = map[string]task.LatePolicy{"": task.LateDead, "dlq": task.LateDead, "drop": task.LateDrop, "include": task.LateInclude}

func (c *compiler) inputTime() {
	t := &c.pipeline.Input.Time
	late, ok := latePolicies[t.Late]
	if !ok {
		c.fail("input.time.late", "unknown policy %q: use dlq, drop or include", t.Late)
	}
	if t.Lateness < 0 || t.Lateness > 30*24*time.Hour {
		c.fail("input.time.lateness", "%v is out of range: use 0 to 720h", t.Lateness)
	}
	if t.MaxAhead < 0 {
		c.fail("input.time.max_ahead", "%v is negative", t.MaxAhead)
	}
	c.plan.Time = task.TimePlan{Lateness: t.Lateness, MaxAhead: cmpOr(t.MaxAhead, DefaultMaxAhead), Late: late}
	if t.Field == "" {
		return
	}
	slot, ok := c.names.schema.Lookup(t.Field)
	if !ok || !c.isField(t.Field) {
		c.fail("input.time.field", "%q is not one of input.fields", t.Field)
		return
	}
	unit, known := timeUnits[t.Unit]
	want := value.Int
	if t.Unit == "rfc3339" {
		want, known = value.Time, true
	}
	switch {
	case !known:
		c.fail("input.time.unit", "unknown unit %q: use s, ms, us or ns for an int, rfc3339 for a time", t.Unit)
	case slot.Type.Kind != want || slot.Type.Optional:
		c.fail("input.time.field", "field %q is of type %v: unit %s needs type %v", t.Field, slot.Type, t.Unit, want)
	}
	c.plan.Time.FromField, c.plan.Time.Slot, c.plan.Time.Unit = true, slot, unit
}

func (c *compiler) constants() {
	for _, k := range c.pipeline.Constants {
		path := "constants." + k.Name
		if !c.identifier(path, k.Name) {
			continue
		}
		if _, ok := c.names.schema.Lookup(k.Name); ok {
			c.fail(path, "%q is a field already: names are one flat set without shadowing", k.Name)
			continue
		}
		if (k.Value == nil) == (k.Table == nil) {
			c.fail(path, "a constant is a scalar or a table of scalars")
			continue
		}
		c.names.constants[k.Name] = expression.Constant{Value: k.Value, Table: k.Table}
	}
}

func (c *compiler) loadModels() {
	for _, m := range c.pipeline.Models {
		path := "models." + m.Name
		if !c.identifier(path, m.Name) {
			continue
		}
		if m.Version < 1 {
			c.fail(path+".version", "%d is not a version: use a number from 1 that changes with the file", m.Version)
		}
		if m.File == "" {
			c.fail(path+".file", "missing: name an XGBoost model saved as .json or .ubj")
			continue
		}
		loaded, err := tree.Load(m.File)
		if err != nil {
			c.fail(path+".file", "%v", err)
			continue
		}
		if len(m.Outputs) != loaded.Info().Outputs {
			c.fail(path+".outputs", "the model has %d outputs, %d are named", loaded.Info().Outputs, len(m.Outputs))
			continue
		}
		for _, o := range m.Outputs {
			if o.Type != "number" {
				c.fail(path+".outputs."+o.Name, "type %q: the output of a tree model is a number", o.Type)
			}
		}
		c.models[m.Name] = loadedModel{loaded, fmt.Sprintf("%s@%d", m.Name, m.Version), m.Outputs}
		c.plan.Models = append(c.plan.Models, fmt.Sprintf("%s@%d sha256:%s", m.Name, m.Version, loaded.Info().Digest))
	}
}

// finish builds the feature sets and the digests.
func (c *compiler) finish() error {
	plan := c.plan
	for i, specs := range c.specs {
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
	plan.Digest, plan.Cells = c.digests()
	plan.Prepare()
	return nil
}

// digests returns the digest of what decides outputs, and of what decides the
// meaning of stored cells. How often is committed and how many rows share a
// call decide neither.
func (c *compiler) digests() (meaning, cells string) {
	p := *c.pipeline
	var features []Feature
	p.Commit, p.Delivery, p.Input.Partitions = Commit{}, "", 0
	p.Models = slices.Clone(p.Models)
	for i := range p.Models {
		p.Models[i].File = c.models[p.Models[i].Name].Info().Digest
	}
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		features = append(features, p.Steps[i].Features...)
		if s := p.Steps[i].Score; s != nil {
			score := *s
			score.Batch = Batch{}
			p.Steps[i].Score = &score
		}
	}
	return digest(p), digest([]any{p.Input.Key, p.Input.Time.Unit, features, c.specs})
}

func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("afterbay: pipeline cannot be encoded: %v", err)) // plain data always can
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
