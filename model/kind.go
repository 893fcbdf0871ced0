package model

import (
	"context"
	"time"
)

// Kind is a kind of model that manifests name: `kind: NAME`. Fields that only this kind needs are
// below the same name in the manifest. A Go program adds its own kinds through Code.
type Kind struct {
	Name    string // lower case, digits and '_'
	Help    string // what the mapping describes, for the reference page
	Example string // of the mapping, in YAML
	NoFile  bool   // a manifest with the mapping may have no file

	// New returns a pointer to a new struct with one field for each field of the mapping. They have
	// the tags that sink.Kind explains. Each field also declares the effect of changing it:
	//
	//	affects:"outputs"  the scores differ: the field is part of the fingerprint
	//	affects:"nothing"  the scores stay the same
	New func() Config
}

// Config is the mapping of a kind in a manifest, below the kind's name. If the manifest has no such
// mapping, Config has the values of New and the defaults of the tags. Its methods do not change it.
type Config interface {
	// Check returns everything that is wrong with the manifest. It reads no file, runs no program
	// and calls no server. An error that is a *Mistake names the wrong field.
	Check(*Manifest) []error

	// Open returns the model. The caller has checked that the paths of the manifest can be opened
	// and that the file has its digest, if there is one. If the model is an io.Closer, the caller
	// must close it. Open does not connect a Connector. The caller scores the golden vectors.
	Open(context.Context, *Manifest) (Model, error)

	// Describe says where the model is, in one line without secrets. "" means the manifest's file.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Program is a Config that runs a program. Its models are Connectors, and read-only commands do
	// not connect them.
	Program interface{ Program() string }

	// Server is a Config of a model on a server. Models with the same URL and service share their
	// call limits, in all pipelines of a process.
	Server interface {
		Service(*Manifest) (url, service string)
	}

	// Inliner is a Config of a kind that allows inline models in a pipeline. Inline reports whether
	// the model is of the kind, and returns the Config to open it with.
	Inliner interface {
		Inline(Inline) (Config, bool, error)
	}
)

// Inline is a model that a pipeline describes inline: `models: {risk: {url: ...}}`, or `process` in
// place of `url`.
type Inline struct {
	URL     string        // "" if Command is set
	Command []string      // nil if URL is set
	Version int           // of the model
	Timeout time.Duration // of a call; 0 means the kind's default
	Calls   int           // concurrent calls; 0 means the kind's default
}

// Mistake is an error of a Config that names the wrong field. Findings show it with file, line and
// column.
type Mistake struct {
	Field string // of the kind's mapping, such as `endpoint`; "" means the mapping itself
	Hint  string // what to do next; may be empty
	Err   error  // the problem
}

// Error returns the problem.
func (m *Mistake) Error() string {
	if m.Err == nil {
		return "is not valid"
	}
	return m.Err.Error()
}

// Unwrap returns the problem.
func (m *Mistake) Unwrap() error { return m.Err }
