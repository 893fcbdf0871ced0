package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/models"
)

// pipeline is a pipeline that is ready to run, and its file.
type pipeline struct {
	file   string
	source *config.File
	index  int // in the file
	runner *afterbay.Runner
}

// newRunner checks a pipeline, whose models may be of any kind. What they have
// outside of the process ends with the command.
func (a *app) newRunner(p afterbay.Pipeline, o afterbay.Options) (*afterbay.Runner, error) {
	o.Announce = a.announce
	o.Endpoints = cmp.Or(o.Endpoints, &a.endpoints)
	runner, err := afterbay.New(p, o)
	if err == nil {
		a.ends = append(a.ends, runner.Close)
	}
	return runner, err
}

// announce says which program is run.
func (a *app) announce(text string) { fmt.Fprintln(a.stderr, text) }

// opening says how models of manifests are opened.
func (a *app) opening() models.Opening {
	return models.Opening{Kinds: fileKinds().Models, Announce: a.announce}
}

// noPrograms has load run no program: for commands that score nothing.
func noPrograms(o *afterbay.Options) { o.NoPrograms = true }

func (p pipeline) describe() string {
	text := fmt.Sprintf("%s and writes %s", strings.Join(p.runner.Inputs(), ", "), strings.Join(p.runner.Outputs(), ", "))
	for _, m := range p.runner.Models() {
		text += "\n  model " + m
	}
	return text + p.describeSinks()
}

// load reads and checks the pipelines of files. The error is all that is wrong
// with them. keys returns KeyBytes of each of a number of pipelines; nil is the
// default. More options are set by set.
func (a *app) load(files []string, sessions int, keys func(pipelines int) int64, set ...func(*afterbay.Options)) ([]pipeline, error) {
	if sessions < 0 {
		return nil, usage("--parallelism %d: use 1 or more, or 0 for one per core", sessions)
	}
	var all []pipeline
	var loaded []*config.File
	var found []error
	names := map[string]string{}
	options := afterbay.Options{Sessions: sessionsOrCores(sessions), Logger: a.log, Fault: a.fault}
	for _, change := range set {
		change(&options)
	}
	count := 0
	for _, path := range files {
		if config.IsGateway(path) {
			return nil, usage("%s is a gateway file: name the pipelines, and it by --gateway %s", path, path)
		}
		file, err := config.Load(path, fileKinds())
		if errors.As(err, new(*fs.PathError)) {
			err = fmt.Errorf("%w: name a pipeline file that can be read", err)
		}
		if err != nil {
			found = append(found, err)
			continue
		}
		loaded, count = append(loaded, file), count+len(file.Pipelines)
	}
	if keys != nil {
		options.KeyBytes = keys(count)
	}
	for _, file := range loaded {
		path := file.Name
		for i, p := range file.Pipelines {
			if other, ok := names[p.Name]; ok {
				found = append(found, fmt.Errorf("%s: pipeline %q is in %s too: rename one, since its state has its name", path, p.Name, other))
				continue
			}
			names[p.Name] = path
			runner, err := a.newRunner(p, options)
			if err != nil {
				found = append(found, file.Explain(i, err))
				continue
			}
			all = append(all, pipeline{path, file, i, runner})
		}
	}
	if len(found) > 0 {
		return nil, cannotRun(found...)
	}
	return upstreamFirst(all)
}

// upstreamFirst orders pipelines so that one which writes a topic comes before
// those that read it. The error is what is wrong between them.
func upstreamFirst(pipelines []pipeline) ([]pipeline, error) {
	order, found := afterbay.Chain(runnersOf(pipelines))
	var ordered []pipeline
	var errs []error
	for _, i := range order {
		ordered = append(ordered, pipelines[i])
	}
	for i, p := range pipelines {
		if err, ok := found[i]; ok {
			errs = append(errs, p.source.Explain(p.index, err))
		}
	}
	if len(errs) > 0 {
		return nil, &exitError{exitInvalid, &invalidError{errors.Join(errs...)}}
	}
	return ordered, nil
}

func runnersOf(pipelines []pipeline) []*afterbay.Runner {
	runners := make([]*afterbay.Runner, len(pipelines))
	for i, p := range pipelines {
		runners[i] = p.runner
	}
	return runners
}

// sessionsOrCores returns the sessions of a pipeline: one per core where 0 are
// asked for.
func sessionsOrCores(sessions int) int {
	if sessions == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return sessions
}

// invalidError puts each thing wrong with the files on lines of its own.
type invalidError struct{ error }

// Error returns all that is wrong.
func (e *invalidError) Error() string {
	return "the pipeline cannot run\n" + e.error.Error()
}

// Unwrap returns the errors.
func (e *invalidError) Unwrap() error { return e.error }
