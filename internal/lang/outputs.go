package lang

import (
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Outputs are the topics that the steps of a pipeline write.
type Outputs struct {
	Topics  []string           // by the index that operators have
	Written map[string][]Field // what emits write to a topic
	Keyed   map[string]Keyed   // how they key it
	Emits   int
	Writers int         // emits, and topics of calls
	Formats []Formatted // of emits, by index

	names map[string][]writerName // by topic
}

// Index returns the index of a topic, which is added if it is new.
func (o *Outputs) Index(topic string) int {
	if i := slices.Index(o.Topics, topic); i >= 0 {
		return i
	}
	o.Topics = append(o.Topics, topic)
	return len(o.Topics) - 1
}

// Writable checks a topic that a step writes.
func (s *Scope) Writable(path, topic string) {
	if !naming.ValidTopic(topic) {
		s.Fail(path, "%q is not a topic name: use letters, digits, '.', '_' and '-'", topic)
	}
	s.Unreserved(path, topic)
	if topic == s.Topic || slices.ContainsFunc(s.Pipeline.Inputs, func(in Input) bool { return in.Topic == topic }) || topic == s.Pipeline.Input.Topic {
		s.Fail(path, "the pipeline reads %q: writing it would never end", topic)
	}
}

// Unreserved checks that a topic has no name that is reserved for those of the engine.
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

// OutputName checks that the outputs of a step have ids of their own, and that dead
// letters can name the step: no two steps that one event may take write a topic by one name.
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

// Formatted is how an emit writes its records.
type Formatted struct {
	Path   string // of the format in the file
	Format OutputFormat
	Emit   *operator.Emit
}

// Formatted notes how an emit writes its records, and checks that all emits of a topic do so in one way.
func (s *Scope) Formatted(path string, format OutputFormat, e *operator.Emit) {
	for _, other := range s.Outputs.Formats {
		if other.Emit.Topic == e.Topic && other.Format != format {
			s.Fail(path, "%s of %q is another one: those who read the topic could not tell the records apart", other.Path, e.Topic)
			s.Hint("write one format in all emits of the topic")
			break
		}
	}
	s.Outputs.Formats = append(s.Outputs.Formats, Formatted{path, format, e})
}

// FormatOf returns how emits write the records of a topic.
func (o *Outputs) FormatOf(topic string) (format OutputFormat) {
	for _, f := range o.Formats {
		if f.Emit.Topic == topic {
			format = f.Format
		}
	}
	return format
}

// MixedTypes is in place of a type where emits write several.
const MixedTypes = "of several types"

// Keyed is how emits key the records of a topic.
type Keyed struct {
	By      []string // members of the value that are the key, in each emit
	Deletes bool     // records may have no value
}

// Wrote notes what an emit writes to a topic, and the members that are its key: what only some of its emits write
// may be absent. An object that the emit makes is raw.
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
			continue // another value of the object
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
			continue // it is of several types
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
