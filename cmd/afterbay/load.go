package main

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

// loader returns the loader of the command's pipelines.
func (a *app) loader() *process.Loader {
	if a.loading == nil {
		a.loading = &process.Loader{Kinds: fileKinds(), Logger: a.log, Announce: a.announce, Fault: a.fault}
	}
	return a.loading
}

// announce prints the program that is about to run.
func (a *app) announce(text string) { fmt.Fprintln(a.stderr, text) }

// opening returns the options for opening models of manifests.
func (a *app) opening() models.Opening {
	return models.Opening{Kinds: fileKinds().Models, Announce: a.announce}
}

// noPrograms makes load run no programs. Commands that score nothing use it.
func noPrograms(o *pipeline.Options) { o.NoPrograms = true }

// load reads and checks the pipelines of files. It returns all their errors together. keys returns
// KeyBytes of each pipeline for a number of pipelines; nil is the default. The functions set change
// other options.
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
