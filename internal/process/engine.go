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

// engine is the log that a command works on.
type Engine struct {
	lang.Engine
	Typed string                   // what names it behind --engine
	by    string                   // the flag or call that names it, if no file does
	Place func(found error) error  // says where in the file that names it; nil where a flag does
	Env   func(name string) string // the environment

	Program bool // a Go program opens it: hints name calls in place of flags
}

func (e *Engine) hints() *hints {
	if e.Program {
		return &calls
	}
	return &flags
}

// shared reports whether several processes may open it at a time.
func (e *Engine) Shared() bool {
	_, ok := e.Config.(stream.Shared)
	return ok
}

// folder is where a process keeps what is its own, with this data directory: a shared log
// has a folder beside what an embedded log keeps there.
func (e *Engine) Folder(data string) string {
	if e.Shared() {
		return filepath.Join(data, e.Kind)
	}
	return data
}

// wrong returns what is wrong with the engine, with where it is named and what
// to do next.
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

// EngineAt returns the engine of a URL. Errors begin with what names it: a flag or a call.
func EngineAt(kinds lang.Kinds, url, by string) (*Engine, error) {
	e := &Engine{Typed: url, by: by, Env: os.Getenv}
	var found spec.Problems
	e.Engine, found = kinds.Engine(url)
	return e, e.Wrong(found)
}

// directoryEngine returns the engine that is a data directory.
func DirectoryEngine() *Engine {
	e := &Engine{Env: os.Getenv}
	e.Engine, _ = lang.Kinds{Logs: []stream.Kind{embedded.Kind}}.Engine(dataDirectory)
	return e
}

// engineOf returns the engine that pipelines name, which all share.
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

// next returns the engine that a pipeline names, or e, and what is wrong with it
// after e.
func (e *Engine) Next(p Pipeline) (*Engine, spec.Problems) {
	named := p.Source.Pipelines[p.Index].Engine
	if named.URL == "" {
		return e, nil
	}
	here := &Engine{Engine: named, Typed: p.File, Place: func(found error) error { return p.Source.Explain(p.Index, found) }, Env: e.Env}
	found := named.Check()
	if len(found) == 0 && e.URL != "" && !named.Same(e.Engine) {
		found = spec.Problems{{
			Path: "engine", Message: "another pipeline of the process has another engine: that in " + e.Typed,
			Hint: "write it alike in each or in one of them, or run them in processes of their own",
		}}
	}
	return here, found
}

// Open opens the log. The process says what is its own.
func (e *Engine) Open(ctx context.Context, logger *slog.Logger, p stream.Process) (stream.Engine, error) {
	p = e.Process(logger, p)
	log, err := e.Config.Open(ctx, p)
	if err == nil {
		return log, nil
	}
	switch found := lang.EngineProblems(err); {
	case len(found) == 1 && found[0].Path == "engine": // of the flags of the process
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

// Process completes what an engine is told.
func (e *Engine) Process(logger *slog.Logger, p stream.Process) stream.Process {
	p.Logger, p.Environment, p.Typed = logger, e.Env, e.Place == nil
	return p
}

// deliveryOf is what a pipeline says about its outputs, as logs take it.
func DeliveryOf(d lang.Delivery) stream.Delivery {
	switch d {
	case lang.AtLeastOnce:
		return stream.AtLeastOnce
	case lang.AtMostOnce:
		return stream.AtMostOnce
	}
	return stream.ExactlyOnce
}
