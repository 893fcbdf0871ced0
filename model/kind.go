package model

import (
	"context"
	"time"
)

// Kind is a kind of models that manifests name: `kind: NAME`. What only models of the kind
// need stands in the manifest below the same name. A Go program brings its own kinds
// through Code.
type Kind struct {
	Name    string // lower case, digits and '_'
	Help    string // what the mapping says, for the reference page
	Example string // of the mapping, in YAML
	NoFile  bool   // a manifest with the mapping may have no file

	// New returns a pointer to a new struct, whose fields are those of the mapping. They
	// have the tags that sink.Kind explains. Each also says what a change of it changes:
	//
	//	affects:"outputs"  other scores: it is part of the fingerprint
	//	affects:"nothing"  the scores stay the same
	New func() Config
}

// Config is what a manifest says of a model of a kind, below the kind's name. Without such
// a mapping it has the values of New and those of the tags for defaults. Its methods do not
// change it.
type Config interface {
	// Check returns all that is wrong with the manifest. It reads no file, runs no program
	// and asks no server. An error that is a *Mistake says which field is wrong.
	Check(*Manifest) []error

	// Open returns the model. The paths of the manifest can be opened, and the file has its
	// digest, if there is one. If the model is an io.Closer, the caller must close it. A
	// Connector is opened without being reached. The caller scores the golden vectors.
	Open(context.Context, *Manifest) (Model, error)

	// Describe says where the model is, in one line that holds no secret; "" says that it
	// is the manifest's file.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Program is a Config that runs a program. A model of it is a Connector, and commands
	// that only look do not connect it.
	Program interface{ Program() string }

	// Server is a Config of a model on a server. Models of the same URL and service share
	// what bounds calls, in all pipelines of a process.
	Server interface {
		Service(*Manifest) (url, service string)
	}

	// Inliner is a Config of a kind whose models a pipeline may describe itself. Inline
	// reports whether this one is of the kind, and returns what to open it with.
	Inliner interface {
		Inline(Inline) (Config, bool, error)
	}
)

// Inline is a model that a pipeline describes itself: `models: {risk: {url: ...}}`, or
// `process` in place of `url`.
type Inline struct {
	URL     string        // "" with Command
	Command []string      // nil with URL
	Version int           // of the model
	Timeout time.Duration // of a call; 0 is what the kind takes
	Calls   int           // at a time; 0 is what the kind takes
}

// Mistake is an error of a Config that names the field which is wrong. Findings show it
// with file, line and column.
type Mistake struct {
	Field string // of the kind's mapping, such as `endpoint`; "" is the mapping
	Hint  string // what to do next; may be empty
	Err   error  // what is wrong
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
