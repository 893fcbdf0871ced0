package main

import (
	"errors"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type tailCommand struct {
	Topic string `arg:"" help:"Topic to print."`
	directoryFlags
	Partition int32 `help:"Print only this partition; -1 is all." default:"-1"`
	From      int64 `help:"First offset; a negative number counts back from the end." default:"0"`
	Limit     int64 `help:"Print at most this many records; 0 is all." default:"0"`
	Follow    bool  `help:"Wait for more records, until a signal ends the command." short:"f"`
	View      bool  `help:"Print the topic as if the newest generation of its pipeline had always been live: see afterbay reprocess."`
	Headers   bool  `help:"Print JSON with partition, offset, time, key and headers, instead of values alone."`
}

// Run prints the records, one per line.
func (c *tailCommand) Run(a *app) (err error) {
	if c.Limit < 0 || c.Partition < inspect.AllPartitions {
		return usage("--limit and --partition must be 0 or more; --partition -1 is all")
	}
	if c.View && c.From != 0 {
		return usage("--view reads from the beginning: leave out --from")
	}
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	out := term.NewLines(a.stdout, c.Follow)
	var line []byte
	q := inspect.Query{Topic: c.Topic, Partition: c.Partition, From: c.From, Limit: c.Limit, Follow: c.Follow, View: c.View}
	for r, err := range directory.Records(a.ctx, q) {
		if a.ctx.Err() != nil {
			break
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
		line = report.AppendRecord(line[:0], &r, c.Headers)
		if err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Close()
}
