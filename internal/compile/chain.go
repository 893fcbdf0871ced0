package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Chain orders pipelines that run together. A pipeline that writes a topic comes before those that
// read the topic or look it up, and so decides its number of partitions. Chain returns the order as
// indexes of all. It also returns the errors between pipelines, by index: a missing field, another
// key, a loop.
func Chain(all []*Compiled) (order []int, found map[int]spec.Problems) {
	found = map[int]spec.Problems{}
	for reader, c := range all {
		for _, writer := range all {
			if errs := c.reads(writer); len(errs) > 0 {
				found[reader] = append(found[reader], errs...)
			}
		}
	}
	left := make([]int, len(all))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		first := func(writes func(writer, reader *Compiled) bool) int {
			return slices.IndexFunc(left, func(i int) bool {
				return !slices.ContainsFunc(left, func(other int) bool { return writes(all[other], all[i]) })
			})
		}
		next := first((*Compiled).writesFor)
		if next < 0 { // a table may depend on the events that look it up
			next = first((*Compiled).writesInputOf)
		}
		if next < 0 {
			loop := loopOf(all, left)
			found[loop[0]] = append(found[loop[0]], &spec.Problem{
				Path: "pipeline", Message: "the pipelines " + strings.Join(namesOf(all, loop), ", ") + " feed each other: their events would never end",
				Hint: "write another topic in one of them",
			})
			return append(order, left...), found
		}
		order = append(order, left[next])
		left = slices.Concat(left[:next], left[next+1:])
	}
	return order, found
}

func (c *Compiled) writesInputOf(reader *Compiled) bool {
	return slices.ContainsFunc(reader.Inputs(), func(topic string) bool { return slices.Contains(c.Outputs(), topic) })
}

// writesFor reports whether c decides the partitions of a topic that reader reads or looks up.
func (c *Compiled) writesFor(reader *Compiled) bool {
	return c.writesInputOf(reader) || c != reader && slices.ContainsFunc(reader.Tables(), func(topic string) bool { return slices.Contains(c.Outputs(), topic) })
}

// loopOf returns pipelines that feed each other. Each pipeline of left must be fed by another of
// left.
func loopOf(all []*Compiled, left []int) []int {
	var way []int
	for at := left[0]; ; {
		if i := slices.Index(way, at); i >= 0 {
			return slices.Sorted(slices.Values(way[i:]))
		}
		way = append(way, at)
		at = left[slices.IndexFunc(left, func(i int) bool { return all[i].writesInputOf(all[at]) })]
	}
}

func namesOf(all []*Compiled, list []int) []string {
	var names []string
	for _, i := range list {
		names = append(names, all[i].Name())
	}
	return names
}

// reads returns the errors in c as a reader of the records that writer emits.
func (c *Compiled) reads(writer *Compiled) spec.Problems {
	var errs spec.Problems
	for _, e := range writer.emits() {
		for _, t := range c.Plan.Tables {
			switch {
			case t.Topic != e.Topic:
			case e.Encoder != nil && t.Encoded == "":
				errs = append(errs, &spec.Problem{
					Path: "steps", Message: fmt.Sprintf("a lookup reads the rows of %q as JSON, and pipeline %q writes them with a format", e.Topic, writer.Name()),
					Hint: "write the format in the lookup too",
				})
			case e.Encoder == nil && t.Schema != nil:
				errs = append(errs, &spec.Problem{
					Path: "steps", Message: fmt.Sprintf("a lookup reads the rows of %q by a schema, and pipeline %q writes them as JSON", e.Topic, writer.Name()),
					Hint: "write the format in the emit too, or remove it from the lookup",
				})
			}
		}
		for path, in := range c.Pipeline.EachInput() {
			if in.Topic != e.Topic {
				continue
			}
			if in.Format.IsJSON() != (e.Encoder == nil) {
				errs = append(errs, &spec.Problem{
					Path: path + ".format", Message: fmt.Sprintf("pipeline %q emits to %q with another format", writer.Name(), in.Topic), Hint: "write one format in both",
				})
				continue
			}
			errs = append(errs, readsEmit(path, in, len(c.Copies) > 0, writer, e)...)
		}
	}
	return errs
}

// emits returns the emits of a pipeline, without those in on_failure.
func (c *Compiled) emits() (list []*operator.Emit) {
	for i := range c.Plan.Stages {
		list = append(list, operator.EmitsOf(c.Plan.Stages[i].Operator)...)
	}
	return list
}

// readsEmit compares an input with an emit that writes it.
func readsEmit(path string, in *lang.Input, copied bool, writer *Compiled, e *operator.Emit) spec.Problems {
	var errs spec.Problems
	fail := func(at, hint, format string, args ...any) {
		errs = append(errs, &spec.Problem{Path: path + at, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for _, f := range in.Fields {
		t, err := value.ReadType(f.Type)
		if err != nil {
			continue
		}
		names, whole := membersOf(f)
		slot, ok, exact := written(e, names)
		name := strings.Join(names, ".")
		switch {
		case ok && (!whole || !exact || slot.Name == "" && t.Kind.IsMap()):
			continue // the inner value is checked only when a record is read
		case !ok && !t.Optional:
			fail(".fields."+f.Name, "add it to that emit's value, or make it optional here", "pipeline %q emits to %q without %q", writer.Name(), in.Topic, name)
		case ok && !fits(slot.Type.Kind, t.Kind):
			fail(".fields."+f.Name, "give it one type in both", "pipeline %q emits %q as %v to %q, and here it is %v", writer.Name(), f.Name, slot.Type.Kind, in.Topic, t.Kind)
		case ok && slot.Type.Optional && !t.Optional:
			fail(".fields."+f.Name, "make it optional here, or give it a value there: ... ?? 0", "pipeline %q emits %q to %q only if it has a value", writer.Name(), f.Name, in.Topic)
		}
	}
	key := writer.Pipeline.Input.Key
	if e.Key != nil {
		key = e.Key.Name
	}
	at := lang.Field{Name: in.Key}
	if i := slices.IndexFunc(in.Fields, func(f lang.Field) bool { return f.Name == in.Key }); i >= 0 {
		at = in.Fields[i]
	}
	names, whole := membersOf(at)
	slot, ok, exact := written(e, names)
	if ok && whole && exact && !copied && key != "" && slot.Name != "" && slot.Name[0] != lang.Hidden[0] && slot.Name != key {
		fail(".key", "write `key: "+slot.Name+"` in that emit, or `repartition` in this input", "pipeline %q emits to %q by key %q, and here the key is %q", writer.Name(), in.Topic, key, in.Key)
	}
	return errs
}

// membersOf returns the names of the members that lead to a field in a record. whole is true if the
// last member is the value of the field, and false if the value is an element of a list.
func membersOf(f lang.Field) (names []string, whole bool) {
	parts, _ := decode.ParsePath(f.Path) // without a path, or with an invalid one, the name is the path
	field := decode.Field{Name: f.Name, Path: parts}
	return field.Members()
}

// written returns the value that an emit writes at the given members. An object counts as a raw
// value without a name. exact is false if the emit writes a value at an outer member.
func written(e *operator.Emit, names []string) (slot value.Slot, ok, exact bool) {
	for i, of := range e.Members {
		switch n := min(len(of), len(names)); {
		case !slices.Equal(of[:n], names[:n]):
		case len(of) == n:
			return e.Values[i], true, len(names) == n
		default:
			return value.Slot{Type: value.Type{Kind: value.Raw}}, true, true
		}
	}
	return value.Slot{}, false, false
}

// fits reports whether JSON written as one kind can be read as the other.
func fits(from, to value.Kind) bool {
	numeric := func(k value.Kind) bool { return k == value.Int || k == value.Number }
	texts := func(k value.Kind) bool { return k == value.Time || k == value.String || k == value.Bytes }
	if from.IsList() && to.IsList() || from.IsMap() && to.IsMap() {
		from, to = from.Element(), to.Element()
	}
	return from == to || to == value.Raw || numeric(from) && numeric(to) || texts(from) && texts(to) || from == value.Vector && to == value.List|value.Number
}

// Marks returns the topic with the watermarks of a pipeline, for pipelines that copy its outputs.
func Marks(pipeline string) string { return naming.Of(pipeline, naming.Marks) }

// Upstreams returns the pipelines that write a topic that reader copies, sorted by name. The
// watermark of an upstream tells which of its outputs are still to come. Upstreams leaves out
// pipelines that queue events, because their watermark does not tell this.
func Upstreams(all []*Compiled, reader *Compiled, topic string) (list []task.Upstream) {
	for _, writer := range all {
		writes, keyed := writer.writesInTime(topic)
		if writes && writer != reader {
			list = append(list, task.Upstream{Pipeline: writer.Name(), Topic: writer.Plan.Topic, Keyed: keyed, Reads: readsTo(all, writer)})
		}
	}
	slices.SortFunc(list, func(a, b task.Upstream) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return list
}

// writesInTime reports whether a pipeline writes a topic, and writes no output there with a time
// before its watermark. keyed reports whether it writes some of them with a key.
func (c *Compiled) writesInTime(topic string) (writes, keyed bool) {
	p := c.Plan
	if p.Queues() || p.Time.Late == operator.LateTopic && p.Outputs[p.Time.LateOutput] == topic {
		return false, false
	}
	for _, s := range p.Stages {
		for _, e := range operator.EmitsOf(s.Operator) {
			of := e.Topic == topic
			writes, keyed = writes || of, keyed || of && e.Key != nil
		}
		if call, ok := s.Operator.(*operator.Call); ok {
			of := slices.Contains(call.Topics, topic)
			writes, keyed = writes || of, keyed || of
		}
	}
	return writes, keyed
}

// readsTo returns all reads on the way to the outputs of a pipeline, in the order of events.
func readsTo(all []*Compiled, c *Compiled) (reads []observe.Read) {
	for _, writer := range all {
		if writer != c && writer.writesInputOf(c) {
			reads = append(reads, readsTo(all, writer)...)
		}
	}
	return append(reads, c.Reads()...)
}
