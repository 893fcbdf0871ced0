package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/stream"
)

// dataDirectory is the URL of the log of a data directory.
const dataDirectory = "embedded"

// engineFlags say which log a command works on.
type engineFlags struct {
	Engine string `help:"Log to work on: kafka://HOST:PORT[,HOST:PORT...], or kafka+tls://..., with settings behind a question mark; a pipeline file, whose engine is meant; or embedded, the data directory. Without it the engine of the pipeline files that the command is given, or else the data directory." env:"AFTERBAY_ENGINE" placeholder:"URL"`
}

// engine is the log that a command works on.
type engine struct {
	lang.Engine
	typed string                   // what names it behind --engine
	place func(found error) error  // says where in the file that names it; nil where a flag does
	env   func(name string) string // the environment
}

// shared reports whether several processes may open it at a time.
func (e *engine) shared() bool {
	_, ok := e.Config.(stream.Shared)
	return ok
}

// folder is where a process keeps what is its own, with this data directory: a shared log
// has a folder beside what an embedded log keeps there.
func (e *engine) folder(data string) string {
	if e.shared() {
		return filepath.Join(data, e.Kind)
	}
	return data
}

// wrong returns what is wrong with the engine, with where it is named and what
// to do next.
func (e *engine) wrong(found afterbay.Errors) error {
	switch {
	case len(found) == 0:
		return nil
	case e.place != nil:
		return &exitError{exitInvalid, &invalidError{e.place(found)}}
	}
	var errs []error
	for _, f := range found {
		text := f.Message
		if _, setting, ok := strings.Cut(f.Path, "."); ok && setting != "url" {
			text = "setting " + setting + ": " + text
		}
		errs = append(errs, fmt.Errorf("--engine: %s: %s", text, f.Hint))
	}
	return &exitError{exitUsage, errors.Join(errs...)}
}

// resolve returns the engine of a command: that of the flag or of the
// environment, whole, or else the one of the pipelines that it was given.
// Settings of two brokers do not mix: what one trusts the other must not get.
func (f *engineFlags) resolve(pipelines []pipeline) (*engine, error) {
	kinds := fileKinds()
	switch _, known := kinds.Log(f.Engine); {
	case f.Engine == "":
		e, err := engineOf(pipelines)
		if err == nil && e.URL == "" {
			e = directoryEngine()
		}
		return e, err
	case known, strings.Contains(f.Engine, "://"):
		e := &engine{typed: f.Engine, env: os.Getenv}
		var found afterbay.Errors
		e.Engine, found = kinds.Engine(f.Engine)
		return e, e.wrong(found)
	case strings.HasSuffix(f.Engine, ".yaml"), strings.HasSuffix(f.Engine, ".yml"):
		return engineOfFile(f.Engine)
	}
	_, found := kinds.Engine(f.Engine)
	return nil, usage("--engine %s: %s, or a pipeline file", f.Engine, found[0].Hint)
}

// directoryEngine returns the engine that is a data directory.
func directoryEngine() *engine {
	e := &engine{env: os.Getenv}
	e.Engine, _ = fileKinds().Engine(dataDirectory)
	return e
}

// engineOfFile returns the engine that a pipeline file names.
func engineOfFile(path string) (*engine, error) {
	file, err := config.Load(path, fileKinds())
	if err != nil {
		return nil, fmt.Errorf("--engine: %w", err)
	}
	var pipelines []pipeline
	for i := range file.Pipelines {
		pipelines = append(pipelines, pipeline{file: path, source: file, index: i})
	}
	e, err := engineOf(pipelines)
	if err == nil && e.URL == "" {
		err = usage("--engine: %s names no engine: add `engine: kafka://HOST:PORT` to it, or name the brokers here", path)
	}
	return e, err
}

// engineOf returns the engine that pipelines name, which all share.
func engineOf(pipelines []pipeline) (*engine, error) {
	e := &engine{env: os.Getenv}
	for _, p := range pipelines {
		here, found := e.next(p)
		if len(found) > 0 {
			return nil, here.wrong(found)
		}
		e = here
	}
	return e, nil
}

// next returns the engine that a pipeline names, or e, and what is wrong with it
// after e.
func (e *engine) next(p pipeline) (*engine, afterbay.Errors) {
	named := p.source.Pipelines[p.index].Engine
	if named.URL == "" {
		return e, nil
	}
	here := &engine{named, p.file, func(found error) error { return p.source.Explain(p.index, found) }, e.env}
	found := named.Check()
	if len(found) == 0 && e.URL != "" && !named.Same(e.Engine) {
		found = afterbay.Errors{{
			Path: "engine", Message: "another pipeline of the process has another engine: that in " + e.typed,
			Hint: "write it alike in each or in one of them, or run them in processes of their own",
		}}
	}
	return here, found
}

// openEngine opens the log of an engine. The process says what is its own.
func (a *app) openEngine(e *engine, p stream.Process) (stream.Engine, error) {
	p = e.process(a, p)
	log, err := e.Config.Open(a.ctx, p)
	if err == nil {
		return log, nil
	}
	switch found := lang.EngineProblems(err); {
	case len(found) == 1 && found[0].Path == "engine": // of the flags of the process
		return nil, usage("%w", err)
	case found != nil:
		return nil, e.wrong(found)
	case !e.shared():
		return nil, directoryError(err, p.Dir)
	case errors.Is(err, kafka.ErrLocked):
		return nil, &exitError{exitLocked, fmt.Errorf("%w: end that process, or give this one a folder of its own with --data", err)}
	case a.ctx.Err() != nil:
		return nil, err
	}
	return nil, &exitError{exitEngine, err}
}

// process completes what an engine is told.
func (e *engine) process(a *app, p stream.Process) stream.Process {
	p.Logger, p.Environment, p.Typed = a.log, e.env, e.place == nil
	return p
}

// deliveryOf is what a pipeline says about its outputs, as logs take it.
func deliveryOf(d afterbay.Delivery) stream.Delivery {
	switch d {
	case afterbay.AtLeastOnce:
		return stream.AtLeastOnce
	case afterbay.AtMostOnce:
		return stream.AtMostOnce
	}
	return stream.ExactlyOnce
}

// flag is what to type to work on the engine, for a data directory.
func (e *engine) flag(data string) string {
	switch {
	case e.shared():
		return " --engine '" + e.typed + "'"
	case cmp.Or(data, "data") != "data":
		return " --data " + data
	}
	return ""
}
