package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// dataDirectory is the URL of the log of a data directory.
const dataDirectory = "embedded"

// Engine is the log that a command works on.
type Engine struct {
	lang.Engine
	Typed string                   // value that names it after --engine
	by    string                   // the flag or call that names it, if no file does
	Place func(found error) error  // adds the place in the file that names it to an error; nil if a flag names it
	Env   func(name string) string // the environment

	Program bool // a Go program opens it: hints name calls instead of flags
}

func (e *Engine) hints() *hints {
	if e.Program {
		return &calls
	}
	return &flags
}

// Shared reports whether several processes may open it at the same time.
func (e *Engine) Shared() bool {
	_, ok := e.Config.(stream.Shared)
	return ok
}

// Folder returns the folder for a process's own files, given its data directory. For a shared log
// it is a subfolder, separate from the files of an embedded log.
func (e *Engine) Folder(data string) string {
	if e.Shared() {
		return filepath.Join(data, e.Kind)
	}
	return data
}

// Wrong returns an error for problems of the engine, with the place that names it and advice. It
// returns nil if there are no problems.
func (e *Engine) Wrong(found spec.Problems) error {
	switch {
	case len(found) == 0:
		return nil
	case e.Place != nil:
		return failure.CannotRun(e.Place(found))
	}
	var errs []error
	for _, f := range found {
		text := f.Message
		if _, setting, ok := strings.Cut(f.Path, "."); ok && setting != "url" {
			text = "setting " + setting + ": " + text
		}
		errs = append(errs, fmt.Errorf("%s: %s: %s", e.by, text, f.Hint))
	}
	return failure.As(failure.OfUsage, errors.Join(errs...))
}

// EngineAt returns the engine of a URL. Errors begin with by, the flag or call that names it.
func EngineAt(kinds lang.Kinds, url, by string) (*Engine, error) {
	e := &Engine{Typed: url, by: by, Env: os.Getenv}
	var found spec.Problems
	e.Engine, found = kinds.Engine(url)
	return e, e.Wrong(found)
}

// DirectoryEngine returns the engine of a data directory.
func DirectoryEngine() *Engine {
	e := &Engine{Env: os.Getenv}
	e.Engine, _ = lang.Kinds{Logs: []stream.Kind{embedded.Kind}}.Engine(dataDirectory)
	return e
}

// EngineOf returns the engine that pipelines name. All of them must name the same one.
func EngineOf(pipelines []Pipeline) (*Engine, error) {
	e := &Engine{Env: os.Getenv}
	for _, p := range pipelines {
		here, found := e.Next(p)
		if len(found) > 0 {
			return nil, here.Wrong(found)
		}
		e = here
	}
	return e, nil
}

// EngineOfGateway returns the engine that a gateway file names.
func EngineOfGateway(path string, g *config.Gateway) (*Engine, error) {
	e := &Engine{Engine: g.Engine, Typed: path, Place: g.Explain, Env: os.Getenv}
	return e, e.Wrong(e.Check())
}

// Next returns the engine that a pipeline names, or e if it names none. It also returns the
// problems of that engine, for example that it differs from e.
func (e *Engine) Next(p Pipeline) (*Engine, spec.Problems) {
	named := p.Source.Pipelines[p.Index].Engine
	if named.URL == "" {
		return e, nil
	}
	here := &Engine{Engine: named, Typed: p.File, Place: func(found error) error { return p.Source.Explain(p.Index, found) }, Env: e.Env}
	found := named.Check()
	if len(found) == 0 && e.URL != "" && !named.Same(e.Engine) {
		found = spec.Problems{{
			Path: "engine", Message: "the process has one engine, and this one differs from the engine in " + e.Typed,
			Hint: "write the same engine in all files, or in one of them, or run the pipelines in separate processes",
		}}
	}
	return here, found
}

// Open opens the log. p has the options of the process.
func (e *Engine) Open(ctx context.Context, logger *slog.Logger, p stream.Process) (stream.Engine, error) {
	p = e.Process(logger, p)
	log, err := e.Config.Open(ctx, p)
	if err == nil {
		return log, nil
	}
	switch found := lang.EngineProblems(err); {
	case len(found) == 1 && found[0].Path == "engine": // a problem of the flags of the process
		return nil, failure.Usage("%w", err)
	case found != nil:
		return nil, e.Wrong(found)
	case e.Kind == embedded.Kind.Name:
		return nil, e.hints().directoryError(err, p.Dir)
	case errors.Is(err, kafka.ErrLocked):
		return nil, failure.Locked(fmt.Errorf("%w: %s", err, e.hints().own))
	case ctx.Err() != nil:
		return nil, err
	}
	return nil, failure.Connections(err)
}

// Process adds the logger and the environment to the options of an engine.
func (e *Engine) Process(logger *slog.Logger, p stream.Process) stream.Process {
	p.Logger, p.Environment, p.Typed = logger, e.Env, e.Place == nil
	return p
}

// DeliveryOf converts the delivery setting of a pipeline's outputs to that of the log.
func DeliveryOf(d lang.Delivery) stream.Delivery {
	switch d {
	case lang.AtLeastOnce:
		return stream.AtLeastOnce
	case lang.AtMostOnce:
		return stream.AtMostOnce
	}
	return stream.ExactlyOnce
}
