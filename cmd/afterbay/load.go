package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

// loader returns what loads the pipelines of the command.
func (a *app) loader() *process.Loader {
	if a.loading == nil {
		a.loading = &process.Loader{Kinds: fileKinds(), Logger: a.log, Announce: a.announce, Fault: a.fault}
	}
	return a.loading
}

// announce says which program is run.
func (a *app) announce(text string) { fmt.Fprintln(a.stderr, text) }

// opening says how models of manifests are opened.
func (a *app) opening() models.Opening {
	return models.Opening{Kinds: fileKinds().Models, Announce: a.announce}
}

// noPrograms has load run no program: for commands that score nothing.
func noPrograms(o *pipeline.Options) { o.NoPrograms = true }

// load reads and checks the pipelines of files. The error is all that is wrong
// with them. keys returns KeyBytes of each of a number of pipelines; nil is the
// default. More options are set by set.
func (a *app) load(files []string, members int, keys func(pipelines int) int64, set ...func(*pipeline.Options)) ([]process.Pipeline, error) {
	if members < 0 {
		return nil, usage("--parallelism %d: use 1 or more, or 0 for one per core", members)
	}
	options := pipeline.Options{Members: process.Members(members)}
	for _, change := range set {
		change(&options)
	}
	return a.loader().Load(files, options, keys)
}
