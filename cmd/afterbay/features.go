package main

import (
	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/ops/inspect"
)

type featuresCommand struct {
	File     string   `arg:"" help:"Pipeline file. A model that is not there yet ends the rows before its score."`
	Events   string   `arg:"" optional:"" help:"File of events: NDJSON, or CSV with a header; - is standard input." default:"-"`
	Out      string   `help:"File to write: .parquet, .csv or .ndjson. One that is there is replaced." required:"" placeholder:"FILE"`
	Pipeline string   `help:"Pipeline whose rows are written, where the file has several." placeholder:"NAME"`
	Columns  []string `help:"Names to write, in this order, such as tx,spend.*,gap; the default is meta.id, meta.key, meta.time and all others." placeholder:"NAME"`
	Topic    string   `help:"Topic that the events go to; the default is the input of the first pipeline." placeholder:"TOPIC"`
	Format   string   `help:"How the events are written: ndjson or csv. The default is what the file's name ends with, or ndjson." enum:"ndjson,csv," default:""`
	tableFlags
	FromData string `help:"Take the events from the topic in this data directory instead." placeholder:"DIR"`
}

// Run writes a row for each event that the pipeline took.
func (c *featuresCommand) Run(a *app) error {
	return a.dry().Features(a.ctx, dryrun.FeaturesOptions{
		File: c.File, Events: c.Events, Out: c.Out, Pipeline: c.Pipeline, Columns: c.Columns, Topic: c.Topic, Format: c.Format, Tables: c.Table, FromData: c.FromData,
		Open: func(data string) (inspect.Directory, func() error, error) {
			flags := directoryFlags{Data: data}
			return flags.open(a, false)
		},
	})
}
