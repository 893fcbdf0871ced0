package lang

import (
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Outputs holds the topics that the steps of a pipeline write.
type Outputs struct {
	Topics  []string           // by the index that operators use
	Written map[string][]Field // fields that emits write to a topic
	Keyed   map[string]Keyed   // how emits key the records of a topic
	Emits   int
	Writers int         // number of emits and of topics of calls
	Formats []Formatted // formats of emits, by index of the emit

	names map[string][]writerName // names of the steps that write a topic
}

// Index returns the index of a topic. It adds the topic if it is new.
func (o *Outputs) Index(topic string) int {
	if i := slices.Index(o.Topics, topic); i >= 0 {
		return i
	}
	o.Topics = append(o.Topics, topic)
	return len(o.Topics) - 1
}

// Writable reports a topic that a step must not write.
func (s *Scope) Writable(path, topic string) {
	if !naming.ValidTopic(topic) {
		s.Fail(path, "%q is not a topic name: use letters, digits, '.', '_' and '-'", topic)
	}
	s.Unreserved(path, topic)
	if topic == s.Topic || slices.ContainsFunc(s.Pipeline.Inputs, func(in Input) bool { return in.Topic == topic }) || topic == s.Pipeline.Input.Topic {
		s.Fail(path, "the pipeline reads %q: writing it would never end", topic)
	}
}

// Unreserved reports a topic name that is reserved for topics of the engine.
func (s *Scope) Unreserved(path, topic string) {
	if naming.Reserved(s.Pipeline.Name, topic) {
		s.Fail(path, "topic %q has a name that is reserved for topics of the engine", topic)
		s.Hint("use another name, such as " + naming.Instead(topic))
	}
}

// writerName is the name of a step that writes a topic.
type writerName struct {
	at     string // path of the topic in the step
	name   string // "" if the step has no name
	guards operator.Guards
}

// OutputName checks that no event can pass two steps that write the same topic under the same name.
// Output ids are then unique, and dead letters can name the step.
func (s *Scope) OutputName(at, path, topic, name string) {
	if name != "" && !naming.Identifier(name) {
		s.Fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit", name)
		return
	}
	this := writerName{at: at, name: name, guards: slices.Clone(s.Guards)}
	for _, other := range s.Outputs.names[topic] {
		if other.name != name || other.guards.Exclude(this.guards) {
			continue
		}
		if name == "" {
			s.Fail(at, "%s writes %q too, and neither step has a name", other.at, topic)
			s.Hint("write `name: NAME` in the newer step: the ids of its outputs end with " + topic + "#NAME, and dead letters name the step by it")
		} else {
			s.Fail(path, "%s writes %q by the name %q too", other.at, topic, name)
			s.Hint("give one of the steps another name")
		}
		return
	}
	s.Outputs.names[topic] = append(s.Outputs.names[topic], this)
}

// Formatted is the record format of an emit.
type Formatted struct {
	Path   string // path of the format in the file
	Format OutputFormat
	Emit   *operator.Emit
}

// Formatted notes the record format of an emit. It reports an error if another emit of the topic
// has another format.
func (s *Scope) Formatted(path string, format OutputFormat, e *operator.Emit) {
	for _, other := range s.Outputs.Formats {
		if other.Emit.Topic == e.Topic && other.Format != format {
			s.Fail(path, "%s of %q differs from that of another emit: consumers of the topic could not tell the records apart", other.Path, e.Topic)
			s.Hint("write one format in all emits of the topic")
			break
		}
	}
	s.Outputs.Formats = append(s.Outputs.Formats, Formatted{path, format, e})
}

// FormatOf returns the record format of a topic.
func (o *Outputs) FormatOf(topic string) (format OutputFormat) {
	for _, f := range o.Formats {
		if f.Emit.Topic == topic {
			format = f.Format
		}
	}
	return format
}

// MixedTypes replaces the type of a field that emits write with several types.
const MixedTypes = "of several types"

// Keyed says how emits key the records of a topic.
type Keyed struct {
	By      []string // members of the value that form the key, in each emit
	Deletes bool     // records may have no value
}

// Wrote notes the fields that an emit writes to a topic, and the members that form its key. A field
// that only some emits of the topic write becomes optional. An object that the emit makes has type
// raw.
func (o *Outputs) Wrote(topic string, e *operator.Emit, key []string) {
	before, again := o.Written[topic]
	keyed := o.Keyed[topic]
	if again {
		key = slices.DeleteFunc(key, func(name string) bool { return !slices.Contains(keyed.By, name) })
	}
	o.Keyed[topic] = Keyed{key, keyed.Deletes || e.Delete != nil}
	var here []string
	for i, names := range e.Members {
		name, of := names[0], e.Values[i].Type
		if len(names) > 1 {
			of = value.Type{Kind: value.Raw}
		}
		if slices.Contains(here, name) {
			continue // another value of the same object
		}
		here = append(here, name)
		at := slices.IndexFunc(before, func(f Field) bool { return f.Name == name })
		if at < 0 {
			of.Optional = of.Optional || again
			before = append(before, Field{Name: name, Type: of.String()})
			continue
		}
		was, err := value.ReadType(before[at].Type)
		if err != nil {
			continue // the type is MixedTypes
		}
		if was.Optional, of.Optional = was.Optional || of.Optional, was.Optional || of.Optional; was != of {
			before[at].Type = MixedTypes
		} else {
			before[at].Type = was.String()
		}
	}
	for i := range before {
		if f := &before[i]; !slices.Contains(here, f.Name) && f.Type != MixedTypes && !strings.HasPrefix(f.Type, "optional ") {
			f.Type = "optional " + f.Type
		}
	}
	o.Written[topic] = before
}
