package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type dlqCommand struct {
	Ls      dlqLsCommand      `cmd:"" help:"List dead letters that are not settled, a line each."`
	Show    dlqShowCommand    `cmd:"" help:"Show one dead letter: why, where, the row so far, the event."`
	Stats   dlqStatsCommand   `cmd:"" help:"Count dead letters by stage and kind of reason."`
	Redrive dlqRedriveCommand `cmd:"" help:"Send events of dead letters back to where they failed; what was done before is not done twice."`
	Drop    dlqDropCommand    `cmd:"" help:"Settle dead letters without sending their events back. Their records stay in the topic."`
	Resume  dlqResumeCommand  `cmd:"" help:"Resume a pipeline that stopped because of dlq.stop_above."`
}

// dlqFlags select dead letters.
type dlqFlags struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Stage     string  `help:"Take those that failed at this stage: decode, time, late, let, features, score, decide, emit ..." placeholder:"STAGE"`
	Reason    string  `help:"Take those whose reason has this in it." placeholder:"TEXT"`
	Key       string  `help:"Take those of events with this key." placeholder:"KEY"`
	ID        string  `help:"Take that of the event with this id." name:"id" placeholder:"ID"`
	Partition []int32 `help:"Take those of this partition; may come again." placeholder:"N"`
	Since     moment  `help:"Take those of events from this time on: RFC 3339, or so long before now, as in 2h." placeholder:"TIME"`
	Until     moment  `help:"Take those of events before this time." placeholder:"TIME"`
}

func (f *dlqFlags) filter() report.Filter {
	return report.Filter{
		Stage: f.Stage, Reason: f.Reason, Key: f.Key, ID: f.ID, Partitions: f.Partition,
		Since: f.Since.Time, Until: f.Until.Time,
	}
}

// moment is a time, or how long before now.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	var err error
	if m.Time, err = time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return nil
	}
	ago, err := time.ParseDuration(string(text))
	if err != nil || ago < 0 {
		return fmt.Errorf("%q: use a time such as 2026-01-31T12:00:00Z, or a duration such as 2h", text)
	}
	m.Time = time.Now().Add(-ago)
	return nil
}

type dlqLsCommand struct {
	dlqFlags
	All   bool `help:"List the settled ones too."`
	Limit int  `help:"List at most so many; 0 is all." default:"0"`
	JSON  bool `name:"json" help:"Print objects of JSON, a line each."`
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

// Run shows the newest letter of an event, or the one at a position.
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

type dlqRedriveCommand struct {
	dlqFlags
	Limit  int  `help:"Send at most so many; 0 is all." default:"0"`
	DryRun bool `name:"dry-run" help:"Say what would be sent, and send nothing."`
}

// Run sends events back.
func (c *dlqRedriveCommand) Run(a *app) error {
	return settle(a, &c.dlqFlags, c.Limit, false, c.DryRun)
}

type dlqDropCommand struct {
	dlqFlags
	Everything bool `help:"Drop every dead letter. Needed where nothing else says which."`
	Limit      int  `help:"Drop at most so many; 0 is all." default:"0"`
	DryRun     bool `name:"dry-run" help:"Say what would be dropped, and drop nothing."`
}

// Run drops dead letters.
func (c *dlqDropCommand) Run(a *app) error {
	if f := c.filter(); f.Empty() && !c.Everything {
		return usage("drop what? Say which with --stage, --reason, --key, --id, --partition, --since or --until, or --everything")
	}
	return settle(a, &c.dlqFlags, c.Limit, true, c.DryRun)
}

// settle sends events back or drops them, and reports on stderr how far it is.
func settle(a *app, f *dlqFlags, limit int, drop, dry bool) (err error) {
	if limit < 0 {
		return usage("--limit is 0 or more")
	}
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	s := report.Settling{Pipeline: f.Pipeline, Filter: f.filter(), Drop: drop, Limit: limit}
	if dry {
		return s.DryRun(a.ctx, a.stdout, directory)
	}
	return s.Run(a.ctx, a.stdout, a.stderr, directory)
}

type dlqResumeCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
}

// Run lets a pipeline go on.
func (c *dlqResumeCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if err := directory.Resume(a.ctx, c.Pipeline); err != nil {
		if _, local := directory.(*inspect.Local); local {
			return fmt.Errorf("%w: name the process that runs it with --url; one that is started again goes on by itself", err)
		}
		return err
	}
	fmt.Fprintf(a.stdout, "pipeline %s goes on\n", c.Pipeline)
	return nil
}
