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
	"github.com/afterbay/afterbay/internal/log/kafka"
)

// engineFlags say which log a command works on.
type engineFlags struct {
	Engine string `help:"Log to work on: kafka://HOST:PORT[,HOST:PORT...], or kafka+tls://..., with settings behind a question mark; a pipeline file, whose engine is meant; or embedded, the data directory. Without it the engine of the pipeline files that the command is given, or else the data directory." env:"AFTERBAY_ENGINE" placeholder:"URL"`
}

// engine is the log that a command works on.
type engine struct {
	afterbay.Engine
	typed string                   // what names it behind --engine
	place func(found error) error  // says where in the file that names it; nil where a flag does
	env   func(name string) string // the environment
}

// isKafka reports whether it is no data directory.
func (e *engine) isKafka() bool { return e.URL != "" && e.URL != kafka.Embedded }

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

// ofEngine says of problems of settings that the engine has them.
func ofEngine(found afterbay.Errors) afterbay.Errors {
	for _, f := range found {
		f.Path = "engine." + f.Path
	}
	return found
}

// resolve returns the engine of a command: that of the flag or of the
// environment, whole, or else the one of the pipelines that it was given.
// Settings of two brokers do not mix: what one trusts the other must not get.
func (f *engineFlags) resolve(pipelines []pipeline) (*engine, error) {
	switch typed := f.Engine; {
	case typed == "":
		return engineOf(pipelines)
	case typed == kafka.Embedded, strings.Contains(typed, "://"):
		e := &engine{typed: typed, env: os.Getenv}
		var found afterbay.Errors
		e.Engine, found = kafka.ParseSettings(typed)
		return e, e.wrong(ofEngine(found))
	case strings.HasSuffix(typed, ".yaml"), strings.HasSuffix(typed, ".yml"):
		return engineOfFile(typed)
	}
	return nil, usage("--engine %s: use kafka://HOST:PORT, kafka+tls://HOST:PORT, a pipeline file, or embedded", f.Engine)
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
	if named == (afterbay.Engine{}) {
		return e, nil
	}
	here := &engine{named, p.file, func(found error) error { return p.source.Explain(p.index, found) }, e.env}
	found := ofEngine(named.Check())
	if len(found) == 0 && e.URL != "" && named != e.Engine {
		found = afterbay.Errors{{
			Path: "engine", Message: "another pipeline of the process has another engine: that in " + e.typed,
			Hint: "write it alike in each or in one of them, or run them in processes of their own",
		}}
	}
	return here, found
}

// kafkaDir is where a process keeps what speeds up restarts on Kafka. It is
// beside what an embedded log keeps in the data directory.
func kafkaDir(data string) string { return filepath.Join(data, "kafka") }

// openKafka opens the log of an engine. complete adds to its options.
func (a *app) openKafka(e *engine, complete func(*kafka.Options)) (*kafka.Log, error) {
	options, err := a.kafkaOptions(e)
	if err != nil {
		return nil, err
	}
	complete(&options)
	if err := options.Validate(); err != nil {
		return nil, usage("%w", err)
	}
	log, err := kafka.Open(a.ctx, options)
	switch {
	case err == nil:
		return log, nil
	case errors.Is(err, kafka.ErrLocked):
		return nil, &exitError{exitLocked, fmt.Errorf("%w: end that process, or give this one a folder of its own with --data", err)}
	case a.ctx.Err() != nil:
		return nil, err
	}
	return nil, &exitError{exitEngine, err}
}

// kafkaOptions returns the options that reach an engine's brokers.
func (a *app) kafkaOptions(e *engine) (kafka.Options, error) {
	options, found := e.Options(kafka.Environment{Get: e.env, Last: e.place == nil})
	if err := e.wrong(ofEngine(found)); err != nil {
		return options, err
	}
	if options.SASL.Mechanism == "PLAIN" && options.TLS == nil {
		a.log.Warn("the password goes to the brokers in plain text: use kafka+tls:// or scram-sha-512")
	}
	if strings.HasPrefix(e.TokenURL, "http://") {
		a.log.Warn("the password goes to " + e.TokenURL + " in plain text: use https://")
	}
	options.Logger = a.log
	return options, nil
}

// deliveryOf is what a pipeline says about its outputs, as Kafka does it.
func deliveryOf(d afterbay.Delivery) kafka.Delivery {
	switch d {
	case afterbay.AtLeastOnce:
		return kafka.AtLeastOnce
	case afterbay.AtMostOnce:
		return kafka.AtMostOnce
	}
	return kafka.ExactlyOnce
}

// flag is what to type to work on the engine, for a data directory.
func (e *engine) flag(data string) string {
	switch {
	case e.isKafka():
		return " --engine '" + e.typed + "'"
	case cmp.Or(data, "data") != "data":
		return " --data " + data
	}
	return ""
}
