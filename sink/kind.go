package sink

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Kind is a kind of sinks. A pipeline file chooses it by its name, as a field of a
// sink: `sinks: [{from: decisions, toy: {path: /tmp/x}}]`. A Go program brings its own
// kinds through Code.
type Kind struct {
	Name    string // the field of a sink that chooses the kind: lower case, digits and '_'
	Help    string // where records go, for the reference page
	Example string // of the field's value, in YAML

	// New returns a pointer to a new struct. Its fields are the fields of the mapping
	// below Name. Each exported field of the struct has these tags:
	//
	//	field:"path"       its name in the file; needed
	//	help:"..."         what it says, for the reference page and the schema; needed
	//	example:"/tmp/x"   a value, in YAML; needed
	//	required:"true"    the file has to have it
	//	default:"1s"       what holds without it, as the file would write it
	//	absent:"no limit"  the same in words, where it is no value
	//	min:"10ms"         least value of an int, float64, time.Duration or size
	//	max:"1m"           greatest value
	//	choice:"a|b"       the only values of a string
	//	or:"token_file"    fields that may be written instead of it, and not beside it
	//	unit:"bytes"       an int is a size, such as 64KiB
	//	path:"true"        a string is a path, relative to the folder of the file; so is its default
	//	secret:"token_file" a string is a secret: the file names a variable of the
	//	                   environment. The value is the field that may name a file of
	//	                   it instead, or "true"
	//
	// Types are string, bool, int, float64, time.Duration, []string, map[string]string,
	// a struct with such fields, a pointer to one, which is nil where the file does not
	// have it, and types whose underlying type is one of these. A wrong tag is an error
	// when the kind is given to Code.
	New func() Config
}

// Config is what a pipeline file says of one sink of a kind. Its methods do not change
// it.
type Config interface {
	// Check returns all that is wrong, and asks no service. An error that is a *Mistake
	// says which field is wrong.
	Check(Topic) []error

	// Open returns what takes the records. It is called when the sink starts, and may be
	// called again. The caller closes what it returns. A service that is down is no error:
	// records wait for it.
	Open(context.Context, Topic) (Service, error)

	// Describe says where records go, in one line that holds no secret.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Taker says how records are handed on. A Config that is no Taker takes each.
	Taker interface{ Takes() Way }

	// Bounded says when an object is complete, of a Config that takes Whole objects.
	Bounded interface{ Bounds() Bounds }

	// Warner returns what is allowed but will surprise. Check found nothing wrong.
	Warner interface{ Warnings(Topic) []error }

	// Opaque is a Config whose sink hands values on and reads none. The values of a topic with a
	// `format` are no JSON, and go to such a sink alone.
	Opaque interface{ Opaque() }
)

// Checked is an optional interface of a Sink, Writer or Archive. Check asks the service
// what it lacks for the sink, and changes nothing there. `afterbay lint --connect` calls
// it.
type Checked interface {
	Check(context.Context) []error
}

// Way is how records are handed on: which field of a Service is set.
type Way uint8

// The ways.
const (
	Each  Way = iota // one at a time: the engine remembers the ids that the service took
	Many             // many at once, in the order of their offsets
	Whole            // as objects
)

// Topic is what a sink is told of the topic that it reads and of its own place.
type Topic struct {
	Name        string // of the topic
	Pipeline    string // that writes the topic, and has the sink
	Sink        string // the name of the sink
	Group       string // the consumer group of the sink, by which it may keep positions of its own
	Concurrency int    // calls at once, as the file says; 0 if it does not

	// Columns are the members of the JSON objects that emit steps write to the topic, in
	// their order. It is nil if no emit step writes it.
	Columns []Column
	Partial bool // steps have mistakes, so that Columns may lack some: Check does not complain of what it misses

	Deletes bool     // emit steps delete keys: such a record has a key and no value
	Keys    []string // members that are the text of the key, in the values of all emit steps

	Constants   map[string]any // of the pipeline: bool, int64, float64, string, or a map[string]any from text to one of them
	Fingerprint string         // of what decides the outputs of the pipeline; "" in Check
	Log         string         // the URL of the log that the pipeline names; "" if it names none
	Topics      []string       // that the pipeline reads or writes
}

// Column is a member of the values that are written to a topic.
type Column struct {
	Name string
	Type string // as the pipeline file writes types, such as `optional number`; "" if emit steps write several
}

// Mistake is an error of a Config that names the field which is wrong. Findings show it
// with file, line and column.
type Mistake = stream.Mistake
