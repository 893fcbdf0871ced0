package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type dlqLsCommand struct {
	dlqFlags
	All   bool `help:"List the settled ones too."`
	Limit int  `help:"List at most this many; 0 is all." default:"0"`
	JSON  bool `name:"json" help:"Print JSON, one object in each line."`
}

// Run lists dead letters.
func (c *dlqLsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	out := term.NewLines(a.stdout, false)
	n := 0
	for l, err := range directory.Letters(a.ctx, c.Pipeline, c.filter(), c.All) {
		if err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Write(report.AppendLetter(nil, &l, c.JSON)); err != nil {
			return err
		}
		if n++; n == c.Limit {
			break
		}
	}
	if n == 0 {
		if c.All {
			fmt.Fprintf(a.stderr, "no dead letter of pipeline %s matches\n", c.Pipeline)
		} else {
			fmt.Fprintf(a.stderr, "no open dead letter of pipeline %s matches: add --all to list the settled ones too\n", c.Pipeline)
		}
	}
	return out.Close()
}

type dlqShowCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Letter   string `arg:"" name:"id" help:"Id of the event, or topic/partition@offset of the dead letter as ls prints it."`
	directoryFlags
}

// Run shows the newest dead letter of an event, or the one at a position.
func (c *dlqShowCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	return report.WriteLetter(a.ctx, a.stdout, directory, c.Pipeline, c.Letter)
}

type dlqStatsCommand struct {
	dlqFlags
	JSON bool `name:"json" help:"Print one object of JSON: open, settled, kinds, a list of stage, reason, open, settled, first, last."`
}

// Run counts dead letters.
func (c *dlqStatsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	stats, err := report.CountLetters(a.ctx, directory, c.Pipeline, c.filter())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(stats)
	}
	return stats.Write(a.stdout)
}
