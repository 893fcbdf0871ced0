package main

import (
	"errors"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type stateCommand struct {
	Get  stateGetCommand  `cmd:"" help:"Print the features of a key in a pipeline."`
	Dump stateDumpCommand `cmd:"" help:"Print the whole state of a pipeline, as NDJSON in the order of partition and key."`
}

type stateDumpCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
}

// Run prints all entries.
func (c *stateDumpCommand) Run(a *app) error {
	_, err := a.entries(&c.directoryFlags, c.Pipeline, nil)
	return err
}

// entries prints state, and returns the number of entries.
func (a *app) entries(f *directoryFlags, pipeline string, key *string) (n int, err error) {
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	out := term.NewLines(a.stdout, false)
	var line []byte
	for e, err := range directory.Entries(a.ctx, pipeline, key) {
		if err != nil {
			return n, errors.Join(err, out.Close())
		}
		n++
		line = inspect.AppendEntry(line[:0], e)
		if err := out.Write(line); err != nil {
			return n, err
		}
	}
	return n, out.Close()
}
