package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/process"
)

type stateGetCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline, or PIPELINE.by-FIELD for features by another field."`
	Key      string `arg:"" help:"Key of its events, or value of that field."`
	File     string `help:"Pipeline file, for the names of the features. The default is the file in the current folder with the pipeline." placeholder:"FILE"`
	Raw      bool   `help:"Print the stored entries unchanged, as NDJSON."`
	directoryFlags
}

// Run prints the features of one key, or its entries.
func (c *stateGetCommand) Run(a *app) error {
	switch {
	case c.Raw && c.File != "":
		return usage("--raw reads no --file: give one of the two")
	case c.Raw:
		n, err := a.entries(&c.directoryFlags, c.Pipeline, &c.Key)
		if err == nil && n == 0 {
			return c.nothing()
		}
		return err
	case c.File == "":
		return c.guess(a, a.loader().FilesOf(naming.Root(c.Pipeline), "."))
	}
	return c.describe(a)
}

// guess describes the key with the first file that fits the stored state, because a folder can hold
// drafts of the pipeline too. If no file fits, it returns the error of the first.
func (c *stateGetCommand) guess(a *app, files []string) (first error) {
	for _, path := range files {
		c.File = path
		err := c.describe(a)
		if err == nil || errors.Is(err, errNothing) {
			return err
		}
		first = cmp.Or(first, err)
	}
	if first == nil {
		return c.list(a)
	}
	return first
}

// list prints the raw entries of a key, if no file says how to read their values.
func (c *stateGetCommand) list(a *app) error {
	stored, err := c.stored(a, nil)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		return c.nothing()
	}
	report.WriteHeld(a.stdout, stored)
	fmt.Fprintf(a.stderr, "no pipeline file in this folder has pipeline %s: name its file with --file to see the features and their values, or print the stored entries with --raw\n", c.Pipeline)
	return nil
}

var errNothing = errors.New("nothing stored")

func (c *stateGetCommand) nothing() error {
	return fmt.Errorf("pipeline %q has %w for key %q: keys expire after a long time without events; afterbay state dump shows the keys that it has", c.Pipeline, errNothing, c.Key)
}

// describe prints the features of the key, one per line.
func (c *stateGetCommand) describe(a *app) error {
	pipelines, err := a.load([]string{c.File}, 1, nil, noPrograms)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pipelines, func(p process.Pipeline) bool { return p.Runner.Keeper(c.Pipeline) != nil })
	if i < 0 {
		return usage("%s has no pipeline %q", c.File, c.Pipeline)
	}
	stored, err := c.stored(a, pipelines)
	if err != nil {
		return err
	}
	columns, newest, err := pipelines[i].Runner.Keeper(c.Pipeline).Describe(c.Key, func(key []byte) ([]byte, error) { return stored[string(key)], nil })
	if err != nil {
		return fmt.Errorf("%w: the state was not written by the pipeline of %s", err, c.File)
	}
	if columns == nil {
		return c.nothing()
	}
	fmt.Fprintf(a.stdout, "%-24s %s\n", "newest event", newest.Format(time.RFC3339Nano))
	for _, column := range columns {
		fmt.Fprintf(a.stdout, "%-24s %v\n", column.Name, column.Value)
	}
	return nil
}

// stored returns the state entries of the key, by their stored key.
func (c *stateGetCommand) stored(a *app, pipelines []process.Pipeline) (entries map[string][]byte, err error) {
	directory, closeDirectory, err := c.open(a, false, pipelines...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	return report.Stored(a.ctx, directory, c.Pipeline, c.Key)
}
