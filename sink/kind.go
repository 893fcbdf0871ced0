package sink

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Kind is a kind of sink. A pipeline file selects a kind by its name, as a field of a sink: `sinks:
// [{from: decisions, toy: {path: /tmp/x}}]`. A Go program adds its own kinds through Code.
type Kind struct {
	Name    string // field of a sink that selects the kind: lower case, digits and '_'
	Help    string // where records go, for the reference page
	Example string // YAML value of the field

	// New returns a pointer to a new struct. Its fields are the fields of the mapping below Name.
	// Each exported field of the struct has these tags:
	//
	//	field:"path"       its name in the file; required
	//	help:"..."         its meaning, for the reference page and the schema; required
	//	example:"/tmp/x"   a value, in YAML; required
	//	required:"true"    the file must contain the field
	//	default:"1s"       the value if the field is absent, as the file would write it
	//	absent:"no limit"  the effect of an absent field in words, if no value expresses it
	//	min:"10ms"         least value of an int, float64, time.Duration or size
	//	max:"1m"           greatest value
	//	choice:"a|b"       the only allowed values of a string
	//	or:"token_file"    fields that may be written instead of this one, but not together with it
	//	unit:"bytes"       an int is a size, such as 64KiB
	//	path:"true"        a string is a path, relative to the folder of the file; so is its default
	//	secret:"token_file" a string is a secret: the file names an environment variable. The
	//	                   tag's value is the field that may name a file with the secret
	//	                   instead, or "true"
	//
	// Field types are string, bool, int, float64, time.Duration, []string, map[string]string, a
	// struct with such fields, and types with one of these as underlying type. A pointer to a
	// struct is nil if the file does not contain it. A wrong tag is an error when the program
	// passes the kind to Code.
	New func() Config
}

// Config is the part of a pipeline file that configures one sink. Its methods do not change it.
type Config interface {
	// Check returns all configuration errors. It does not call the service. A *Mistake error names
	// the wrong field.
	Check(Topic) []error

	// Open returns the destination of the records. The engine calls Open when the sink starts, and
	// may call it again. The caller closes the result. A service that is down is not an error:
	// records wait for it.
	Open(context.Context, Topic) (Service, error)

	// Describe returns where the records go, in one line without secrets.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Taker says how the sink receives records. A Config that is not a Taker receives Each.
	Taker interface{ Takes() Way }

	// Bounded says when an object is complete, for a Config that receives Whole objects.
	Bounded interface{ Bounds() Bounds }

	// Warner returns warnings: settings that are valid but have surprising effects. It is called
	// only if Check found no error.
	Warner interface{ Warnings(Topic) []error }

	// Opaque marks the Config of a sink that passes values on without reading them. The values of a topic
	// with a `format` are not JSON: only such a sink may read that topic.
	Opaque interface{ Opaque() }
)

// Checked is an optional interface of a Sink, Writer or Archive. Check asks the service and returns
// an error for each thing that the sink lacks there. It changes nothing there. `afterbay lint
// --connect` calls it.
type Checked interface {
	Check(context.Context) []error
}

// Way says how a sink receives records, and so which field of a Service is set.
type Way uint8

// The values of Way.
const (
	Each  Way = iota // one record at a time: the engine remembers the ids that the service accepted
	Many             // many records at once, in the order of their offsets
	Whole            // as objects
)

// Topic describes the topic that a sink reads, and the sink's place in the pipeline.
type Topic struct {
	Name        string // name of the topic
	Pipeline    string // pipeline that writes the topic and contains the sink
	Sink        string // the name of the sink
	Group       string // consumer group of the sink; a sink that stores positions itself may use it as their key
	Concurrency int    // concurrent calls, as the file says; 0 if it does not

	// Columns are the members of the JSON objects that emit steps write to the topic, in order. It
	// is nil if no emit step writes to the topic.
	Columns []Column
	Partial bool // steps have mistakes, so Columns may be incomplete: Check must not report missing columns

	Deletes bool     // emit steps delete keys: such a record has a key and no value
	Keys    []string // members that equal the text of the key, in the values of all emit steps

	Constants   map[string]any // constants of the pipeline: bool, int64, float64, string, or a map[string]any from text to one of them
	Fingerprint string         // fingerprint of everything that determines the outputs of the pipeline; "" in Check
	Log         string         // URL of the log that the pipeline names; "" if it names none
	Topics      []string       // topics that the pipeline reads or writes
}

// Column is a member of the values of a topic.
type Column struct {
	Name string
	Type string // type in the notation of pipeline files, such as `optional number`; "" if emit steps write several
}

// Mistake is an error of a Config that names the wrong field. Findings show it with file, line and
// column.
type Mistake = stream.Mistake
