package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/serve"
)

type stateCommand struct {
	Get  stateGetCommand  `cmd:"" help:"Print what a pipeline stored for a key, as NDJSON."`
	Dump stateDumpCommand `cmd:"" help:"Print all that a pipeline stored, as NDJSON in the order of partition and key."`
}

type stateGetCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Key      string `arg:"" help:"Key of its events."`
	File     string `help:"Pipeline file: print the key's features as of its newest event instead." placeholder:"FILE"`
	directoryFlags
}

type stateDumpCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
}

// Run prints the entries of one key.
func (c *stateGetCommand) Run(a *app) error {
	if c.File != "" {
		return c.describe(a)
	}
	n, err := a.entries(&c.directoryFlags, c.Pipeline, &c.Key)
	if err == nil && n == 0 {
		return c.nothing()
	}
	return err
}

func (c *stateGetCommand) nothing() error {
	return fmt.Errorf("pipeline %q has nothing stored for key %q: keys are forgotten when they are silent for long; afterbay state dump shows those it has", c.Pipeline, c.Key)
}

// describe prints the features of the key, a line each.
func (c *stateGetCommand) describe(a *app) error {
	pipelines, err := a.load([]string{c.File}, 1, nil)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pipelines, func(p pipeline) bool { return p.runner.Name() == c.Pipeline })
	if i < 0 {
		return usage("%s has no pipeline %q", c.File, c.Pipeline)
	}
	stored, err := c.stored(a, pipelines)
	if err != nil {
		return err
	}
	columns, newest, err := pipelines[i].runner.Describe(c.Key, func(key []byte) ([]byte, error) { return stored[string(key)], nil })
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

// stored returns the entries of the key by stored key.
func (c *stateGetCommand) stored(a *app, pipelines []pipeline) (entries map[string][]byte, err error) {
	directory, closeDirectory, err := c.open(a, false, pipelines...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	entries = map[string][]byte{}
	for e, err := range directory.Entries(a.ctx, c.Pipeline, &c.Key) {
		if err != nil {
			return nil, err
		}
		key, err := e.Stored()
		if err != nil {
			return nil, err
		}
		entries[string(key)] = e.Value
	}
	return entries, nil
}

// Run prints all entries.
func (c *stateDumpCommand) Run(a *app) error {
	_, err := a.entries(&c.directoryFlags, c.Pipeline, nil)
	return err
}

// entries prints state, and returns how many entries it has.
func (a *app) entries(f *directoryFlags, pipeline string, key *string) (n int, err error) {
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	out := newLines(a.stdout, false)
	var line []byte
	for e, err := range directory.Entries(a.ctx, pipeline, key) {
		if err != nil {
			return n, errors.Join(err, out.close())
		}
		n++
		line = serve.AppendEntry(line[:0], e)
		if err := out.write(line); err != nil {
			return n, err
		}
	}
	return n, out.close()
}
