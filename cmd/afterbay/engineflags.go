package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process"
)

// engineFlags select the log that a command works on.
type engineFlags struct {
	Engine string `help:"Log to work on: kafka://HOST:PORT[,HOST:PORT...], or kafka+tls://..., with settings after a question mark; a pipeline file, for its engine; or embedded, the data directory. The default is the engine of the command's pipeline files, or the data directory." env:"AFTERBAY_ENGINE" placeholder:"URL"`
}

// resolve returns the engine of a command. A flag or the environment names the whole engine;
// otherwise the pipelines that the command was given do. Settings of two engines are never mixed,
// because the credentials for one broker must not reach another.
func (f *engineFlags) resolve(pipelines []process.Pipeline) (*process.Engine, error) {
	kinds := fileKinds()
	switch _, known := kinds.Log(f.Engine); {
	case f.Engine == "":
		e, err := process.EngineOf(pipelines)
		if err == nil && e.URL == "" {
			e = process.DirectoryEngine()
		}
		return e, err
	case known, strings.Contains(f.Engine, "://"):
		return process.EngineAt(kinds, f.Engine, "--engine")
	case strings.HasSuffix(f.Engine, ".yaml"), strings.HasSuffix(f.Engine, ".yml"):
		return engineOfFile(f.Engine)
	}
	_, found := kinds.Engine(f.Engine)
	return nil, usage("--engine %s: %s, or a pipeline file", f.Engine, found[0].Hint)
}

// engineOfFile returns the engine that a pipeline file names.
func engineOfFile(path string) (*process.Engine, error) {
	pipelines, err := pipelinesOf(path)
	if err != nil {
		return nil, fmt.Errorf("--engine: %w", err)
	}
	e, err := process.EngineOf(pipelines)
	if err == nil && e.URL == "" {
		err = usage("--engine: %s names no engine: add `engine: kafka://HOST:PORT` to it, or name the brokers here", path)
	}
	return e, err
}

// pipelinesOf returns the pipelines of a file, without their runners.
func pipelinesOf(path string) (list []process.Pipeline, err error) {
	file, err := config.Load(path, fileKinds())
	if err != nil {
		return nil, err
	}
	for i := range file.Pipelines {
		list = append(list, process.Pipeline{File: path, Source: file, Index: i})
	}
	return list, nil
}

// engineFlag returns the flags to type for working on an engine with a data directory.
func engineFlag(e *process.Engine, data string) string {
	switch {
	case e.Shared():
		return " --engine '" + e.Typed + "'"
	case cmp.Or(data, "data") != "data":
		return " --data " + data
	}
	return ""
}
