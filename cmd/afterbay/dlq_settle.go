package main

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
)

type dlqRedriveCommand struct {
	dlqFlags
	Limit  int  `help:"Send at most this many; 0 is all." default:"0"`
	DryRun bool `name:"dry-run" help:"Print how many would be sent, and send nothing."`
}

// Run sends events of dead letters back to their pipeline.
func (c *dlqRedriveCommand) Run(a *app) error {
	return settle(a, &c.dlqFlags, c.Limit, false, c.DryRun)
}

type dlqDropCommand struct {
	dlqFlags
	Everything bool `help:"Drop every dead letter. Needed without another selection."`
	Limit      int  `help:"Drop at most this many; 0 is all." default:"0"`
	DryRun     bool `name:"dry-run" help:"Print how many would be dropped, and drop nothing."`
}

// Run drops dead letters.
func (c *dlqDropCommand) Run(a *app) error {
	if f := c.filter(); f.Empty() && !c.Everything {
		return usage("no dead letters are selected: select them with --stage, --reason, --key, --id, --partition, --since or --until, or --everything")
	}
	return settle(a, &c.dlqFlags, c.Limit, true, c.DryRun)
}

// settle sends events back or drops them, and reports its progress on stderr.
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

// Run resumes a stopped pipeline.
func (c *dlqResumeCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if err := directory.Resume(a.ctx, c.Pipeline); err != nil {
		if _, local := directory.(*inspect.Local); local {
			return fmt.Errorf("%w: name the process that runs it with --url; a pipeline also resumes when its process is restarted", err)
		}
		return err
	}
	fmt.Fprintf(a.stdout, "pipeline %s resumed\n", c.Pipeline)
	return nil
}
