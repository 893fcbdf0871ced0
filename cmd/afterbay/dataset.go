package main

import (
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/spec"
)

type datasetCommand struct {
	rowsFlags
	Partitions int32    `help:"Number of partitions of the topic for the events of a file. The default is the number in the pipeline file." placeholder:"N"`
	Key        string   `help:"Field that keys the events of a file, if the pipeline repartitions them. The default is the key of the input." placeholder:"FIELD"`
	Out        string   `help:"File to write: .parquet, .csv or .ndjson. An existing file is replaced. FILE.manifest.json lists its sources." required:"" placeholder:"FILE"`
	Columns    []string `help:"Names to write, in this order, such as tx,spend.*,gap; the default is meta.id, meta.key, meta.time and all others." placeholder:"NAME"`
	Since      string   `help:"Write rows of events from this time on, such as 2026-01-02T15:04:05Z. Earlier events count in windows." placeholder:"TIME"`
	Until      string   `help:"Write rows of events before this time." placeholder:"TIME"`
	Labels     string   `help:"Labels: a file, NDJSON or CSV, or topic:NAME of the log." placeholder:"FILE"`
	On         string   `help:"Name that rows and labels share, such as tx; with the label's field if its name differs, such as tx=order." placeholder:"NAME[=FIELD]"`
	Label      string   `help:"Field that is the label, and its type: bool, int, number, string or time. The default is number." placeholder:"FIELD[:TYPE]"`
	LabelTime  string   `help:"Field with the time at which a label was known, and its unit: s, ms, us, ns or rfc3339. The default is rfc3339 and, for a topic, the time of the append." placeholder:"FIELD[:UNIT]"`
	Horizon    string   `help:"A row gets the newest label that was known within this time after its event, such as 30d." placeholder:"DURATION"`
	AsOf       string   `help:"Time until which labels are known: rows younger than the horizon at this time are left out. The default is the time of the newest label that is not in the future." placeholder:"TIME"`
	Negatives  string   `help:"Share of the rows without a positive label to write, such as 5%. The hash of the value of --on selects them, so each run writes the same rows." placeholder:"SHARE"`
	Profile    string   `help:"File for the profile of the features of the rows, for profile at a model in the pipeline file. Write MODEL=FILE if the pipeline scores several models." placeholder:"FILE"`
	Keep       string   `help:"Expression over the names of a row and its label that selects the rows to write, such as '(fraud ?? 0) == 1 || hash(tx) % 20 == 0'." placeholder:"EXPRESSION"`
}

// rowsFlags select the events to compute again.
type rowsFlags struct {
	File     string `arg:"" help:"Pipeline file. If a model file does not exist yet, rows end before its score."`
	Events   string `arg:"" optional:"" help:"File of events: NDJSON, or CSV with a header; - is standard input." default:"-"`
	Pipeline string `help:"Pipeline that computes the rows, if the file has several." placeholder:"NAME"`
	Topic    string `help:"Topic of the events. The default for a file is the input of the first pipeline; for a log, the inputs of the pipeline that computes the rows." placeholder:"TOPIC"`
	Format   string `help:"Format of the events: ndjson or csv. The default is the extension of the file, or ndjson." enum:"ndjson,csv," default:""`
	tableFlags
	FromData string `help:"Take the events from the log in this data directory instead." placeholder:"DIR"`
	Engine   string `help:"Take the events from this log instead: kafka://HOST:PORT, or a pipeline file, for its engine." placeholder:"URL"`
	parallelismFlags
}

// options returns the options of the rows.
func (f *rowsFlags) options(a *app) dryrun.RowsOptions {
	return dryrun.RowsOptions{
		File: f.File, Events: f.Events, Pipeline: f.Pipeline, Topic: f.Topic, Format: f.Format, Tables: f.Table, Parallelism: process.Members(f.Parallelism), FromLog: f.FromData+f.Engine != "",
		Open: func() (inspect.Directory, func() error, error) {
			flags := directoryFlags{Data: f.FromData, engineFlags: engineFlags{Engine: f.Engine}}
			return flags.open(a, false)
		},
	}
}

// Run writes a row for each event that the pipeline processed.
func (c *datasetCommand) Run(a *app) (err error) {
	o := dataset.Options{
		RowsOptions: c.options(a), Out: c.Out, Negatives: c.Negatives, Keep: c.Keep, Profile: c.Profile, Command: a.args, Version: version(), Now: time.Now(),
		Labels: dataset.Labels{Source: c.Labels, On: c.On, Label: c.Label, Time: c.LabelTime, AsOf: c.AsOf},
	}
	o.RowsOptions.Columns, o.Partitions, o.Key = c.Columns, c.Partitions, c.Key
	if c.Partitions < 0 || c.Partitions > 1024 {
		return usage("--partitions %d: use 1 to 1024", c.Partitions)
	}
	if c.Horizon != "" {
		var ok bool
		if o.Labels.Horizon, ok = spec.ParseDuration(c.Horizon); !ok {
			return usage("--horizon %s: write a duration, such as 30d or 12h", c.Horizon)
		}
	}
	if o.Since, err = timeFlag("--since", c.Since); err != nil {
		return err
	}
	if o.Until, err = timeFlag("--until", c.Until); err != nil {
		return err
	}
	return dataset.Write(a.ctx, a.dry(), o)
}

// timeFlag parses the time of a flag; "" is the zero time.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, usage("%s %s: write a time like 2026-01-02T15:04:05Z", name, text)
	}
	return at, nil
}
