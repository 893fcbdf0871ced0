package main

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/serve"
)

type stateCommand struct {
	Get  stateGetCommand  `cmd:"" help:"Print what a pipeline stored for a key, as NDJSON."`
	Dump stateDumpCommand `cmd:"" help:"Print all that a pipeline stored, as NDJSON in the order of partition and key."`
}

type stateGetCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Key      string `arg:"" help:"Key of its events."`
	directoryFlags
}

type stateDumpCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
}

// Run prints the entries of one key.
func (c *stateGetCommand) Run(a *app) error {
	n, err := a.entries(&c.directoryFlags, c.Pipeline, &c.Key)
	if err == nil && n == 0 {
		return fmt.Errorf("pipeline %q has nothing stored for key %q: keys are forgotten when they are silent for long; afterbay state dump shows those it has", c.Pipeline, c.Key)
	}
	return err
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
