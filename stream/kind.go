package stream

import (
	"context"
	"log/slog"
)

// Kind is a kind of logs. What `engine` of a pipeline file says chooses it by the scheme
// of a URL. A Go program brings its own kinds through Code.
type Kind struct {
	Name string // for messages and for the folder of a log: lower case, digits and '_'
	Help string // where records are, for the reference page

	// URLs says how URLs of the kind are written, as messages show it: kafka://HOST:PORT.
	// What stands before the first ':' is a scheme of the kind; of a URL without ':' it is
	// the whole.
	URLs    []string
	Example string // of `engine`, in YAML

	// New returns a pointer to a new struct, whose fields are those of `engine` as a
	// mapping. One of them is `url`, a text: it holds what a file says that has the URL
	// alone. The tags are those of package sink.
	New func() Config
}

// Config is what a pipeline file says of a log of a kind. Its methods do not change it.
type Config interface {
	// Check returns all that is wrong, and asks nothing outside the process. An error
	// that is a *Mistake says which field is wrong.
	Check() []error

	// Open opens the log. The caller closes it. An error that is a *Mistake, or several
	// of them that are joined, is of what the file says.
	Open(context.Context, Process) (Engine, error)

	// Describe says where records are, in one line that holds no secret.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Shared is a Config of a log that several processes may open at a time, as clients of
	// brokers do. Any other log is of the process that opened it.
	Shared interface{ Shared() }

	// Parser is a Config with settings in its URL. Parse reads a URL that was typed, where
	// there are no other fields, and returns what is wrong with its form. Without it the
	// URL is the field `url`.
	Parser interface{ Parse(url string) []error }
)

// Engine is a log that pipelines run on: what a Config opens.
type Engine interface {
	Log
	Inspector
}

// Process is what a log is told of the process that opens it. A log that has no use for a
// field does without.
type Process struct {
	Dir         string       // folder on this machine that is the log's own; "" is none
	ReadOnly    bool         // what is there is read, and nothing is changed
	Logger      *slog.Logger // nil is slog.Default
	StateBytes  int64        // of states in memory; 0 is the log's default
	RetainBytes int64        // of records that are kept; 0 is the log's default

	// Leave gives partitions up when the process ends. Otherwise a log may keep them for
	// a process that starts again.
	Leave      bool
	Standbys   int                 // other processes that keep a copy of each state
	Deliveries map[string]Delivery // of groups whose outputs are not written exactly once

	Environment func(name string) string // nil is os.Getenv
	Typed       bool                     // the URL was typed: it counts before the environment
}

// Delivery says when the outputs of a step are written. State and offsets are
// committed exactly once in each.
type Delivery int

const (
	// ExactlyOnce writes outputs with their step: readers see all of it at once.
	ExactlyOnce Delivery = iota
	// AtLeastOnce writes outputs as they are made, before their step is committed:
	// readers see them sooner, and after a crash some of them again, identical.
	AtLeastOnce
	// AtMostOnce writes outputs after their step was committed: after a crash some are
	// missing.
	AtMostOnce
)

// Mistake is an error of a Config of a log, a sink or a lookup that names the field which
// is wrong. Findings show it with file, line and column.
type Mistake struct {
	Field  string // of the kind's mapping, such as `url` or `tls.ca`; "" is the mapping
	Beside bool   // Field is not in the mapping but stands beside it, such as concurrency of a sink
	Column int    // the character of an expression in Field, from 1; 0 is the whole of it
	Hint   string // what to do next; may be empty
	Err    error  // what is wrong
}

// Error returns what is wrong.
func (m *Mistake) Error() string {
	if m.Err == nil {
		return "is not valid"
	}
	return m.Err.Error()
}

// Unwrap returns what is wrong.
func (m *Mistake) Unwrap() error { return m.Err }
