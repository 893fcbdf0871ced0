package afterbay

import (
	"context"
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// Code is the Go code that pipeline files refer to: Functions for call steps, Models by name, and
// kinds in addition to the built-in ones (Sinks, Lookups, Logs and ModelKinds).
type Code = lang.Code

// Error is one error in a file, with file, line, column and field, and in most cases a hint about
// what to do next. Errors lists all errors of the files.
type (
	Error  = spec.Error
	Errors = spec.Errors
)

// Pipelines are the contents of pipeline files. Their syntax and fields are valid. Check and
// Engine.Run check their meaning.
type Pipelines struct {
	files []*lang.File
	code  Code
}

// Load reads pipeline files, the environment variables that they name, and the manifests of their
// models. A file has at most 1 MiB. Paths in a file are relative to its folder. The files can name
// the functions, models and kinds of code. Errors in the files are returned together as Errors,
// each with file, line, column and what to do next.
func Load(code Code, files ...string) (*Pipelines, error) {
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return nil, err
	}
	p := &Pipelines{code: code}
	var found Errors
	for _, path := range files {
		file, err := lang.Load(path, kinds)
		var list Errors
		switch {
		case errors.As(err, &list):
			found = append(found, list...)
		case err != nil:
			return nil, err
		}
		p.files = append(p.files, file)
	}
	if found != nil {
		return nil, found
	}
	return p, nil
}

// Parse is Load for one text, for example a file embedded with go:embed, or JSON that the program
// generated (JSON is valid YAML). Error messages call the text filename, and manifests of models
// are relative to the folder of filename. No environment variable is set: a text that names one
// without a default is an error.
func Parse(filename string, text []byte, code Code) (*Pipelines, error) {
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return nil, err
	}
	file, err := lang.ParseBeside(filename, text, nil, kinds)
	if err != nil {
		return nil, err
	}
	return &Pipelines{[]*lang.File{file}, code}, nil
}

// Warning reports something that is allowed but probably not what the author expects.
type Warning struct {
	Pipeline string
	Text     string
}

// Check checks the meaning of the files: names, types, expressions, models, and the connections
// between pipelines. It does not open a log and does not run programs that a manifest names. The
// error lists all problems, each with file, line, column and field.
func (p *Pipelines) Check(_ context.Context, o Options) ([]Warning, error) {
	kinds, err := builtin.Kinds().With(p.code)
	if err != nil {
		return nil, err
	}
	loader := &process.Loader{Kinds: kinds, Code: p.code, Logger: o.Logger}
	defer loader.Close()
	loaded, err := loader.Make(p.files, pipeline.Options{Members: 1, NoPrograms: true}, nil)
	if err != nil {
		return nil, err
	}
	for i := range loaded {
		if err := loaded[i].CheckCandidates(loader, pipeline.Options{Members: 1, NoPrograms: true}); err != nil {
			return nil, err
		}
	}
	var list []Warning
	arrivals := pipeline.Arrivals(process.Runners(loaded))
	for i, one := range loaded {
		for _, text := range slices.Concat(one.Runner.Warnings, arrivals[i]) {
			list = append(list, Warning{one.Runner.Name(), text})
		}
	}
	return list, nil
}

// all returns the pipelines of all files.
func (p *Pipelines) all() (list []lang.Pipeline) {
	for _, f := range p.files {
		for _, one := range f.Pipelines {
			one.Code = p.code
			list = append(list, one)
		}
	}
	return list
}
