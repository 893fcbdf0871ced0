package compile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// read holds the inputs of a pipeline.
type read struct {
	task.Input
	copies   []task.Plan                    // plans that copy its topics to the repartition topic; without the fingerprint of outputs
	backlogs map[string]control.GateOptions // by topic
}

// reader binds the inputs.
type reader struct {
	*lang.Scope
	read
}

// bindInputs binds the inputs of a pipeline: one topic, several topics, or one topic with another
// key. The last two are copied to the repartition topic of the pipeline.
func bindInputs(s *lang.Scope) read {
	c, p := &reader{s, read{backlogs: map[string]control.GateOptions{}}}, s.Pipeline
	both := len(p.Inputs) > 0 && p.Input.Topic != ""
	if both {
		c.Fail("inputs", "a pipeline has either input or inputs")
	}
	switch {
	case len(p.Inputs) > 0 && !both:
		c.merged("inputs", p.Inputs)
	case p.Input.Repartition != 0 && !both:
		c.merged("input", []lang.Input{p.Input})
	default:
		c.meta(false)
		c.input("input", &p.Input)
		c.alone("input.time", &p.Input.Time)
	}
	return c.read
}

// alone reports fields about the order of several partitions for a topic that is not copied.
func (c *reader) alone(path string, t *lang.EventTime) {
	for word, set := range map[string]bool{"order": t.Order != "", "wait": t.Wait != 0, "idle": t.NeverIdle} {
		if set {
			c.Fail(path+"."+word, "the topic is read in its own order, partition by partition")
			c.Hint("remove it, or set input.repartition: then events of all partitions are read in the order of their times")
		}
	}
}

// meta introduces the names meta.*.
func (c *reader) meta(merged bool) {
	m := &c.Meta
	for _, meta := range []struct {
		name string
		kind value.Kind
		slot *value.Slot
	}{
		{"meta.id", value.String, &m.ID}, {"meta.key", value.String, &m.Key},
		{"meta.time", value.Time, &m.Time}, {"meta.partition", value.Int, &m.Partition},
		{"meta.offset", value.Int, &m.Offset},
	} {
		*meta.slot, _ = c.Names.Schema.Add(meta.name, value.Type{Kind: meta.kind})
	}
	if merged {
		topic, _ := c.Names.Schema.Add("meta.topic", value.Type{Kind: value.String})
		m.Topic = &topic
	}
}

// input binds a topic that the pipeline reads directly.
func (c *reader) input(path string, in *lang.Input) {
	c.read.Topic, c.MaxBytes = in.Topic, cmp.Or(in.MaxBytes, lang.DefaultMaxBytes)
	if !naming.ValidTopic(in.Topic) {
		c.Fail(path+".topic", "%q is not a topic name: use letters, digits, '.', '_' and '-'", in.Topic)
	}
	if _, _, ok := naming.SplitChangelog(in.Topic); ok {
		c.Unreserved(path+".topic", in.Topic) // on Kafka, reserved topics keep state
	}
	if in.Partitions < 0 || in.Partitions > 1024 {
		c.Fail(path+".partitions", "%d is out of range: use 1 to 1024", in.Partitions)
	}
	if c.MaxBytes < 0 || c.MaxBytes > lang.DefaultMaxBytes {
		c.Fail(path+".max_bytes", "%d is out of range: use 1 to %d", in.MaxBytes, lang.DefaultMaxBytes)
	}
	for _, f := range in.Fields {
		at := path + ".fields." + f.Name
		t, err := value.ReadType(f.Type)
		if err != nil {
			c.Fail(at, "%v", err)
			c.Fields, c.Names.Broken[f.Name] = append(c.Fields, f.Name), true
			continue
		}
		if slot, ok := c.Field(at, f.Name, t); ok {
			c.read.Fields = append(c.read.Fields, c.Located(at, in.Envelope, f, slot))
		}
	}
	c.read.Envelope = in.Envelope
	c.Distinct(path+".fields", c.read.Fields)
	c.inputKey(path, in)
	c.inputTime(path+".time", in)
	c.inputDedupe(path+".dedupe", in)
	c.inputBacklog(path+".backlog", in)
}

func (c *reader) inputBacklog(path string, in *lang.Input) {
	b := in.Backlog
	switch marks, err := (control.GateOptions{Max: b.Max, High: b.High, Low: b.Low}).Resolved(); {
	case b == lang.Backlog{}:
	case b.Max == 0:
		c.Fail(path+".max", "missing: how many records may wait")
	case err != nil:
		c.Fail(path, "%v", err)
	default:
		c.backlogs[in.Topic] = marks
	}
}

func (c *reader) inputKey(path string, in *lang.Input) {
	if in.Key == "" {
		c.Fail(path+".key", "missing: name the field that events share state and order by")
		return
	}
	slot, ok := c.FieldNamed(path+".key", path, in.Key)
	if ok && (slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int) {
		c.Fail(path+".key", "field %q is of type %v: a key is a string or int that is always there", in.Key, slot.Type)
	}
	c.Key = slot
}

func (c *reader) inputTime(path string, in *lang.Input) {
	t := &in.Time
	if t.Lateness < 0 || t.Lateness > 30*24*time.Hour {
		c.Fail(path+".lateness", "%v is out of range: use 0 to 720h", t.Lateness)
	}
	if t.MaxAhead < 0 {
		c.Fail(path+".max_ahead", "%v is negative", t.MaxAhead)
	}
	if t.Wait < 0 || t.Wait > t.Lateness {
		c.Fail(path+".wait", "%v is out of range: use 0s to the lateness of %v", t.Wait, t.Lateness)
	}
	if t.Wait > 0 && t.ByArrival() {
		c.Fail(path+".wait", "with order: arrival the engine waits for no event")
		c.Hint("remove one of them")
	}
	if t.Idle != 0 && (t.Idle < 100*time.Millisecond || t.Idle > 24*time.Hour) {
		c.Fail(path+".idle", "%v is out of range: use 100ms to 24h", t.Idle)
	}
	c.Time = operator.Timing{Lateness: t.Lateness, Idle: t.Idle, Appended: ofAppend(*t), EventTime: operator.EventTime{MaxAhead: cmp.Or(t.MaxAhead, lang.DefaultMaxAhead)}}
	c.late(path, in)
	if t.Field == "" {
		return
	}
	slot, ok := c.FieldNamed(path+".field", strings.TrimSuffix(path, ".time"), t.Field)
	if !ok {
		return
	}
	unit, known := lang.TimeUnits[t.Unit]
	wants := []value.Kind{value.Int, value.Number}
	switch {
	case t.Format != "":
		wants, known = []value.Kind{value.String}, true
	case t.Unit == "rfc3339":
		wants, known = []value.Kind{value.Time}, true
	}
	switch {
	case t.Format != "" && t.Unit != "":
		c.Fail(path+".format", "remove unit or format: only one is allowed")
	case t.Format != "" && operator.CheckLayout(t.Format) != nil:
		c.Fail(path+".format", "%v", operator.CheckLayout(t.Format))
	case t.Unit == "" && t.Format == "":
		c.Fail(path+".unit", "missing: use s, ms, us or ns for an int or number, rfc3339 for a time, or format for a string")
	case !known:
		c.Fail(path+".unit", "unknown unit %q: use s, ms, us or ns for an int or number, rfc3339 for a time, or format for a string", t.Unit)
	case !slices.Contains(wants, slot.Type.Kind) || slot.Type.Optional:
		word := "unit " + t.Unit
		if t.Format != "" {
			word = "format"
		}
		c.Fail(path+".field", "field %q is of type %v: %s needs type %v", t.Field, slot.Type, word, lang.KindsText(wants))
	}
	c.Time.FromField, c.Time.Slot, c.Time.Unit, c.Time.Layout = true, slot, unit, t.Format
}

// idleOf returns how long a copied partition may have no events before the others stop waiting for
// it. 0 means that they always wait.
func idleOf(t lang.EventTime) time.Duration {
	switch {
	case t.NeverIdle:
		return 0
	case t.Idle > 0:
		return t.Idle
	case t.Field == "":
		return lang.DefaultIdleAppended
	}
	return lang.DefaultIdle
}

// rank returns the position of a topic among the inputs of a pipeline, sorted by name.
func rank(p *lang.Pipeline, topic string) (n int) {
	for _, in := range p.EachInput() {
		if in.Topic < topic {
			n++
		}
	}
	return n
}

// ofAppend reports whether event time is the time of the append, without settings for late events.
func ofAppend(t lang.EventTime) bool {
	return t == lang.EventTime{MaxAhead: t.MaxAhead, Idle: t.Idle, NeverIdle: t.NeverIdle, Order: t.Order, Wait: t.Wait}
}

// late binds the handling of late events.
func (c *reader) late(path string, in *lang.Input) {
	t := &in.Time
	late, ok := lang.LatePolicies[t.Late]
	switch {
	case !ok:
		c.Fail(path+".late", "unknown policy %q: use dlq, drop or include, or {topic: name}", t.Late)
	case t.LateTo == "":
		c.Time.Late = late
		return
	case t.Late != "":
		c.Fail(path+".late", "late events have either a policy or a topic")
	case !naming.ValidTopic(t.LateTo):
		c.Fail(path+".late.topic", "%q is not a topic name: use letters, digits, '.', '_' and '-'", t.LateTo)
	case naming.Reserved(c.Pipeline.Name, t.LateTo):
		c.Unreserved(path+".late.topic", t.LateTo)
	case t.LateTo == in.Topic:
		c.Fail(path+".late.topic", "the pipeline reads %q: writing it would never end", t.LateTo)
	}
	c.Time.Late, c.Time.LateOutput = operator.LateTopic, c.Outputs.Index(t.LateTo)
}

func (c *reader) inputDedupe(path string, in *lang.Input) {
	if in.Dedupe == nil {
		return
	}
	slot, ok := c.FieldNamed(path+".id", strings.TrimSuffix(path, ".dedupe"), in.Dedupe.ID)
	switch {
	case !ok:
		return
	case slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int:
		c.Fail(path+".id", "field %q is of type %v: an id is a string or int that is always there", in.Dedupe.ID, slot.Type)
	}
	spec := dedupe.Spec{Window: cmp.Or(in.Dedupe.Window, lang.DefaultDedupeWindow), Max: cmp.Or(in.Dedupe.Max, lang.DefaultDedupeMax)}
	if err := spec.Validate(); err != nil {
		c.Fail(path, "%v", err)
	}
	c.Dedupe = &task.DedupePlan{Slot: slot, Spec: spec}
}

// mergedTopic returns the repartition topic of a pipeline.
func mergedTopic(pipeline string) string { return naming.Of(pipeline, naming.Repartition) }

// merged binds topics that are copied, by key, to the repartition topic. The copying decodes with
// the fields, time and dedupe of its input. The pipeline uses the time and watermark that come with
// the copies.
func (c *reader) merged(path string, list []lang.Input) {
	c.meta(true)
	c.read.Topic = mergedTopic(c.Pipeline.Name)
	partitions := mergedPartitions(list)
	types, count := map[string]value.Type{}, map[string]int{}
	for i := range list {
		in, at := &list[i], path
		if path == "inputs" {
			at = lang.InputPath(i)
		}
		if slices.ContainsFunc(list[:i], func(o lang.Input) bool { return o.Topic == in.Topic }) {
			c.Fail(at+".topic", "%q occurs twice", in.Topic)
		}
		if in.Time.Late != list[0].Time.Late || in.Time.LateTo != list[0].Time.LateTo {
			c.Fail(at+".time.late", "differs from the first input's: the engine finds late events after it merged the inputs, so all inputs need one policy")
		}
		if in.Repartition < 0 || in.Repartition > 1024 || in.Repartition != 0 && in.Repartition != partitions {
			c.Fail(at+".repartition", "%d: use 1 to 1024 partitions, the same for all inputs", in.Repartition)
		}
		if in.Time.ByArrival() != list[0].Time.ByArrival() {
			c.Fail(at+".time.order", "differs from the first input's: all inputs need one order")
		}
		c.copies = append(c.copies, c.copying(at, in, partitions, types, count))
	}
	if len(c.Errs) > 0 {
		for _, in := range list {
			for _, f := range in.Fields {
				c.Names.Broken[f.Name] = true
			}
		}
		c.copies = nil
		return
	}
	c.sources(list, types, count)
	c.late(path+".time", &list[0])
}

// mergedPartitions returns the number of partitions of the repartition topic.
func mergedPartitions(list []lang.Input) int32 {
	for _, in := range list {
		if in.Repartition != 0 {
			return in.Repartition
		}
	}
	return DefaultPartitions
}

// copying binds the copying of one topic. It records the types of its fields, and in how many
// inputs each field occurs.
func (c *reader) copying(path string, in *lang.Input, partitions int32, types map[string]value.Type, count map[string]int) task.Plan {
	from := &reader{lang.NewScope(c.Pipeline), read{backlogs: c.backlogs}}
	from.meta(false)
	source := *in
	source.Time.Late, source.Time.LateTo = "include", ""
	from.input(path, &source)
	c.Errs = append(c.Errs, from.Errs...)
	for _, f := range from.read.Fields {
		if f.From == decode.FromKey && f.Name != in.Key {
			c.Fail(path+".fields."+f.Name, "%q is the key of the record, but repartitioned records have %q as their key", f.Name, in.Key)
			c.Hint("read it from the data of the event, or make it the key of the input")
		}
		t, known := types[f.Name]
		if known && t.Kind != f.Slot.Type.Kind {
			c.Fail(path+".fields."+f.Name, "%q is of type %v here and %v in another input: a name has one type", f.Name, f.Slot.Type, t)
		}
		types[f.Name] = value.Type{Kind: f.Slot.Type.Kind, Optional: t.Optional || f.Slot.Type.Optional}
		count[f.Name]++
	}
	from.Copy = &task.CopyPlan{Partitions: partitions, Group: c.Pipeline.Name, Rank: rank(c.Pipeline, in.Topic), Wait: in.Time.Wait, Idle: idleOf(in.Time)}
	from.Time.Idle, from.Time.Appended = 0, ofAppend(in.Time)
	name := naming.Repartitioner(c.Pipeline.Name, in.Topic)
	return task.Plan{
		Name: name, DeadTopic: deadletter.Topic(c.Pipeline.Name), Schema: from.Names.Schema, Keys: task.Keys{Keep: DefaultKeep}, Outputs: []string{c.read.Topic},
		Input: from.Input, Fingerprint: generation.Fingerprint{Pipeline: name, State: keptOf(in)},
	}
}

// sources introduces the fields of all inputs. A field that an input lacks is optional.
func (c *reader) sources(list []lang.Input, types map[string]value.Type, count map[string]int) {
	for _, in := range list {
		source := task.Source{Topic: in.Topic, Envelope: in.Envelope, Rank: rank(c.Pipeline, in.Topic), Lateness: in.Time.Lateness}
		c.Slack, c.Arrival = max(c.Slack, in.Time.Lateness-in.Time.Wait), in.Time.ByArrival()
		for _, f := range in.Fields {
			slot, ok := c.Names.Schema.Lookup(f.Name)
			if !ok {
				t := types[f.Name]
				t.Optional = t.Optional || count[f.Name] < len(list)
				slot, _ = c.Field("inputs", f.Name, t)
			}
			source.Fields = append(source.Fields, c.Located("inputs", in.Envelope, f, slot))
		}
		c.Sources = append(c.Sources, source)
		c.MaxBytes = max(c.MaxBytes, cmp.Or(in.MaxBytes, lang.DefaultMaxBytes))
	}
}
