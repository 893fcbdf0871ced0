package main

import (
	"errors"
	"strings"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/ops/inspect"
)

type tryCommand struct {
	File   string `arg:"" help:"Pipeline file."`
	Events string `arg:"" help:"File of events: NDJSON, or CSV with a header; - is standard input; or topic:NAME, the newest 10,000 records of a topic of the log, at most 16 MiB and for at most 30 s." default:"-"`
	Topic  string `help:"Topic of the events; the default is the input of the first pipeline." placeholder:"TOPIC"`
	Format string `help:"Format of the events: ndjson or csv. The default is the extension of the file, or ndjson." enum:"ndjson,csv," default:""`
	Limit  *int   `help:"Print this many events; the default is 20, or all events with --json." placeholder:"N"`
	tableFlags
	directoryFlags
	JSON bool `help:"Print JSON, one object in each line, and the summary on standard error." name:"json"`
}

// Run prints the outputs of the pipelines for the events.
func (c *tryCommand) Run(a *app) error {
	if c.Limit != nil && *c.Limit < 0 {
		return usage("--limit %d: use 0 or more", *c.Limit)
	}
	o := dryrun.TryOptions{File: c.File, Topic: c.Topic, Limit: 20, Tables: c.Table, JSON: c.JSON}
	if c.JSON {
		o.Limit = -1
	}
	if c.Limit != nil {
		o.Limit = int64(*c.Limit)
	}
	if name, ok := strings.CutPrefix(c.Events, topicPrefix); ok {
		return c.topic(a, name, o)
	}
	source, err := a.openEvents(c.Events, c.Format)
	if err != nil {
		return err
	}
	defer source.Close()
	return a.dry().Try(a.ctx, source, nil, o)
}

// topic runs the pipelines over records of a topic.
func (c *tryCommand) topic(a *app, name string, o dryrun.TryOptions) error {
	pipelines, err := pipelinesOf(c.File)
	if err != nil {
		return failure.NotValid(err)
	}
	directory, closeDirectory, err := c.open(a, false, pipelines...)
	if err != nil {
		return err
	}
	topic, err := inspect.Find(a.ctx, directory, name)
	if err == nil {
		err = a.dry().Try(a.ctx, nil, inspect.Sample.Of(a.ctx, directory, topic), o)
	}
	return errors.Join(err, closeDirectory())
}

// dry returns the parts of this program that dry runs need.
func (a *app) dry() *dryrun.Program {
	return &dryrun.Program{Loader: a.loader(), Events: a.openEvents, Out: a.stdout, Err: a.stderr}
}

// tableFlags provide the rows that pipelines look up.
type tableFlags struct {
	Table []string `help:"Rows of a lookup table: its topic, the field with the key, and a file, NDJSON or CSV." placeholder:"TOPIC:KEY=FILE"`
}
