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

// Code is what pipeline files name that is written in Go: Functions of call steps, Models by
// name, and kinds beside the built-in ones: Sinks, Lookups, Logs and ModelKinds.
type Code = lang.Code

// Errors are all that is wrong with files. Each Error has file, line, column and field, and
// mostly a hint: what to do next.
type (
	Error  = spec.Error
	Errors = spec.Errors
)

// Pipelines are what pipeline files say, which has the right shape: Check and Engine.Run
// check what it means.
type Pipelines struct {
	files []*lang.File
	code  Code
}

// Load reads pipeline files of at most 1 MiB, the environment variables that they name, and
// the manifests of their models. Paths in a file are relative to its folder. The files may
// name the functions, models and kinds of code. The error is Errors: all that is wrong, each
// with file, line, column and what to do next.
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

// Parse is Load of one text: of a file that go:embed put into the program, or of JSON, which
// is YAML, that the program made. Messages name it filename, and manifests of models are
// relative to its folder. No environment variable is set: a text that names one without a
// default is an error.
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

// Warning is about something that is allowed and will surprise.
type Warning struct {
	Pipeline string
	Text     string
}

// Check checks what the files say: names, types, expressions, models, and what is between
// the pipelines. It opens no log, and runs no program that a manifest names. An error has
// file, line, column and field of all that is wrong.
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
