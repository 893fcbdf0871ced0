package main

import "github.com/afterbay/afterbay/internal/check/dryrun"

type tryCommand struct {
	File   string `arg:"" help:"Pipeline file."`
	Events string `arg:"" help:"File of events: NDJSON, or CSV with a header; - is standard input." default:"-"`
	Topic  string `help:"Topic that the events go to; the default is the input of the first pipeline." placeholder:"TOPIC"`
	Format string `help:"How the events are written: ndjson or csv. The default is what the file's name ends with, or ndjson." enum:"ndjson,csv," default:""`
	Limit  *int   `help:"Print so many events; the default is 20, or all of them with --json." placeholder:"N"`
	tableFlags
	JSON bool `help:"Print JSON, an object a line, and the summary on standard error." name:"json"`
}

// Run prints what the pipelines make of the events.
func (c *tryCommand) Run(a *app) error {
	if c.Limit != nil && *c.Limit < 0 {
		return usage("--limit %d: use 0 or more", *c.Limit)
	}
	source, err := a.openEvents(c.Events, c.Format)
	if err != nil {
		return err
	}
	defer source.Close()
	o := dryrun.TryOptions{File: c.File, Topic: c.Topic, Limit: 20, Tables: c.Table, JSON: c.JSON}
	if c.JSON {
		o.Limit = -1
	}
	if c.Limit != nil {
		o.Limit = int64(*c.Limit)
	}
	return a.dry().Try(a.ctx, source, o)
}

// dry is what dry runs get of the program.
func (a *app) dry() *dryrun.Program {
	return &dryrun.Program{Loader: a.loader(), Events: a.openEvents, Out: a.stdout, Err: a.stderr}
}

// tableFlags name the rows that pipelines look up.
type tableFlags struct {
	Table []string `help:"Rows of a table that a pipeline looks up: its topic, the field that holds their key, and a file, NDJSON or CSV." placeholder:"TOPIC:KEY=FILE"`
}
