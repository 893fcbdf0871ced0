package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type stateCommand struct {
	Get  stateGetCommand  `cmd:"" help:"Print the features that a pipeline has of a key."`
	Dump stateDumpCommand `cmd:"" help:"Print all that a pipeline stored, as NDJSON in the order of partition and key."`
}

type stateGetCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Key      string `arg:"" help:"Key of its events."`
	File     string `help:"Pipeline file, which says what the features are called. The default is the one in the current folder that has the pipeline." placeholder:"FILE"`
	Raw      bool   `help:"Print the entries as they are stored, as NDJSON."`
	directoryFlags
}

type stateDumpCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
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
		return c.guess(a, filesOf(c.Pipeline, "."))
	}
	return c.describe(a)
}

// guess describes the key by the first file that fits what is stored: a folder may hold
// drafts of the pipeline too. Where none does, the error is that of the first.
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

// filesOf returns the pipeline files in a folder that have a pipeline of the name.
func filesOf(name, folder string) (found []string) {
	for _, ending := range []string{"*.yaml", "*.yml"} {
		paths, err := filepath.Glob(filepath.Join(folder, ending))
		if err != nil {
			return nil // the patterns are right
		}
		for _, path := range paths {
			file, err := config.Load(path, fileKinds())
			if err == nil && slices.ContainsFunc(file.Pipelines, func(p lang.Pipeline) bool { return p.Name == name }) {
				found = append(found, path)
			}
		}
	}
	return found
}

// list prints what there is of a key, where nothing says how its values are read.
func (c *stateGetCommand) list(a *app) error {
	stored, err := c.stored(a, nil)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		return c.nothing()
	}
	entries, bytes := map[string]int{}, map[string]int{}
	for key, value := range stored {
		what := report.Held(key[0])
		entries[what]++
		bytes[what] += len(value)
	}
	for _, what := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(a.stdout, "%-24s %d entries, %d bytes\n", what, entries[what], bytes[what])
	}
	fmt.Fprintf(a.stderr, "no pipeline file in this folder has pipeline %s: name its file with --file to see the features and their values, or print what is stored with --raw\n", c.Pipeline)
	return nil
}

var errNothing = errors.New("nothing stored")

func (c *stateGetCommand) nothing() error {
	return fmt.Errorf("pipeline %q has %w for key %q: keys are forgotten when they are silent for long; afterbay state dump shows those it has", c.Pipeline, errNothing, c.Key)
}

// describe prints the features of the key, a line each.
func (c *stateGetCommand) describe(a *app) error {
	pipelines, err := a.load([]string{c.File}, 1, nil, noPrograms)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pipelines, func(p process.Pipeline) bool { return p.Runner.Name() == c.Pipeline })
	if i < 0 {
		return usage("%s has no pipeline %q", c.File, c.Pipeline)
	}
	stored, err := c.stored(a, pipelines)
	if err != nil {
		return err
	}
	columns, newest, err := pipelines[i].Runner.Plan.Describe(c.Key, func(key []byte) ([]byte, error) { return stored[string(key)], nil })
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
func (c *stateGetCommand) stored(a *app, pipelines []process.Pipeline) (entries map[string][]byte, err error) {
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
