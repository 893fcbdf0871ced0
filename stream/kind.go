package stream

import (
	"context"
	"log/slog"
)

// Kind is a kind of log. The URL scheme in `engine` of a pipeline file selects the kind. A Go
// program adds its own kinds through Code.
type Kind struct {
	Name string // for messages and for the folder of a log: lower-case letters, digits and '_'
	Help string // where records are stored, for the reference page

	// URLs lists the URL forms of the kind, as messages show them: kafka://HOST:PORT. The text
	// before the first ':' is a scheme of the kind. A form without ':' is a scheme as a whole.
	URLs    []string
	Example string // an example of `engine`, in YAML

	// New returns a pointer to a new struct. Its fields are those of `engine` as a mapping. One of
	// them is `url`, a text. It holds the URL if the file gives only a URL. The struct tags are
	// those of package sink.
	New func() Config
}

// Config holds the settings that a pipeline file gives for a log. Its methods do not change it.
type Config interface {
	// Check returns all errors in the settings. It contacts nothing outside the process. An error
	// that is a *Mistake names the wrong field.
	Check() []error

	// Open opens the log. The caller must close it. If the error is a *Mistake, or several joined
	// Mistakes, the settings in the file are wrong.
	Open(context.Context, Process) (Engine, error)

	// Describe says in one line where records are stored. The line holds no secret.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Shared marks a Config of a log that several processes may open at the same time, as clients
	// of brokers do. Only one process at a time may open any other log.
	Shared interface{ Shared() }

	// Parser is a Config with settings in its URL. Parse reads a URL from the command line, where
	// there are no other fields. It returns all errors in the form of the URL. Without Parser the
	// URL is stored in the field `url`.
	Parser interface{ Parse(url string) []error }
)

// Engine is a log that pipelines run on. Config.Open returns one.
type Engine interface {
	Log
	Inspector
}

// Process describes the process that opens a log. A log ignores the fields that it does not need.
type Process struct {
	Dir         string       // local folder reserved for the log; "" if it has no folder
	ReadOnly    bool         // read existing data and change nothing
	Logger      *slog.Logger // nil is slog.Default
	StateBytes  int64        // limit for state in memory; 0 is the log's default
	RetainBytes int64        // limit for retained records; 0 is the log's default

	// Leave gives up partitions when the process ends. Otherwise a log may keep them for a process
	// that starts again.
	Leave      bool
	Standbys   int                 // number of other processes that keep a copy of each state
	Deliveries map[string]Delivery // by group; a group that is not listed uses ExactlyOnce

	Environment func(name string) string // nil is os.Getenv
	Typed       bool                     // the URL comes from the command line and overrides the environment
}

// Delivery says when the outputs of a transaction are written. State and offsets are always
// committed exactly once.
type Delivery int

const (
	// ExactlyOnce writes outputs within their transaction: readers see the whole transaction at
	// once.
	ExactlyOnce Delivery = iota
	// AtLeastOnce writes outputs as soon as they are produced, before their transaction commits.
	// Readers see them sooner. After a crash, readers see some of them again, with identical
	// content.
	AtLeastOnce
	// AtMostOnce writes outputs after their transaction committed. After a crash, some are missing.
	AtMostOnce
)

// Mistake is an error in the Config of a log, a sink or a lookup. It names the wrong field.
// Findings show it with file, line and column.
type Mistake struct {
	Field  string // in the kind's mapping, such as `url` or `tls.ca`; "" is the mapping itself
	Beside bool   // Field is outside the mapping, on the same level, such as concurrency of a sink
	Column int    // position of the wrong character in the expression in Field, from 1; 0 is the whole expression
	Hint   string // what the user should do next; may be empty
	Err    error  // the problem
}

// Error describes the problem.
func (m *Mistake) Error() string {
	if m.Err == nil {
		return "is not valid"
	}
	return m.Err.Error()
}

// Unwrap returns Err.
func (m *Mistake) Unwrap() error { return m.Err }
