package main

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/sys/plot"
)

type reprocessCommand struct {
	File     string   `arg:"" help:"Changed pipeline file: with the new model, or with other changes that keep its features."`
	Pipeline string   `help:"Name of the pipeline, if the file has several."`
	Model    []string `help:"Model instead of the file's: NAME@VERSION=FILE. NAME@VERSION alone checks that the file has that version." placeholder:"NAME@VERSION[=FILE]"`
	From     string   `help:"Write no outputs for events that were appended before this time (RFC 3339); they count for features." placeholder:"TIME"`
	To       string   `help:"Leave out events that were appended from this time on." placeholder:"TIME"`
	State    string   `name:"from-state" help:"Begin with the state of another generation, and with the events after it: a number of afterbay generations; or live, after you stopped its processes for the copy." placeholder:"GENERATION|live"`
	Rate     float64  `help:"Maximum of events a second, to leave capacity for live events; 0 is no limit." default:"0"`
	Follow   bool     `help:"Continue with live events, until a signal ends the command." short:"f"`
	Switch   bool     `help:"Switch to the new generation when it has caught up: from then on it writes to the pipeline's topics."`
	Into     []string `help:"Destination of the reprocessed outputs: a sink of the file, a topic for all outputs, or OUTPUT=TOPIC for one output. Write sink:NAME or topic:NAME for a name of both. The default is topics of the generation." placeholder:"SINK|TOPIC|OUTPUT=TOPIC"`
	DryRun   bool     `name:"dry-run" help:"Print how many events would be computed, how many calls the journal answers, and the cost of the others. Nothing is written or called."`
	Compare  bool     `help:"At the end, compare the new generation's outputs with the earlier ones: changed decisions, and distributions of scores."`
	Plot     string   `help:"Draw the distributions of --compare to a file, .svg or .png." placeholder:"FILE"`
	JSON     bool     `name:"json" help:"Print the progress as JSON, one object in each line: generation, group, topics, into, first, resumed, events, of, rate, models, delivered, sink, caught_up, outputs, dead_letters, live, done; and with --compare one more: compare."`
	directoryFlags
}

// Run reprocesses the history of the pipeline.
func (c *reprocessCommand) Run(a *app) (err error) {
	request, err := c.request()
	if err != nil {
		return err
	}
	changed, err := a.loader().Changed(request)
	if err != nil {
		return err
	}
	defer changed.Runner.Close()
	directory, closeDirectory, err := c.open(a, false, changed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	all := report.Reprocess(a.ctx, directory, changed.Runner, request)
	last, done, err := report.FollowReprocessing(a.ctx, all, a.stdout, a.stderr, c.JSON)
	if err != nil || !done {
		return err
	}
	if !c.JSON {
		report.WriteReprocessed(a.stdout, changed.Runner.Name(), c.File, &request, &last)
	}
	if c.Compare {
		return c.compare(a, directory, changed.Runner.Name(), changed.Runner.Outputs(), &last)
	}
	return nil
}

func (c *reprocessCommand) request() (request reprocess.Request, err error) {
	request = reprocess.Request{Pipeline: c.Pipeline, Models: c.Model, Rate: c.Rate, Follow: c.Follow, Switch: c.Switch, Into: c.Into, State: c.State, DryRun: c.DryRun}
	for _, at := range []struct {
		flag, text string
		into       *time.Time
	}{{"--from", c.From, &request.From}, {"--to", c.To, &request.To}} {
		if at.text == "" {
			continue
		}
		if *at.into, err = time.Parse(time.RFC3339Nano, at.text); err != nil {
			return request, usage("%s %s: use a time as in 2026-11-22T03:00:00Z", at.flag, at.text)
		}
	}
	if c.Follow && c.Switch {
		return request, usage("--follow and --switch: choose one; --switch follows until it has handed over")
	}
	if c.Plot != "" {
		if _, err := plot.FormatOf(c.Plot); err != nil || !c.Compare {
			return request, usage("--plot %s: name a file that ends in .svg or .png, beside --compare", c.Plot)
		}
	}
	if c.DryRun && c.Compare {
		return request, usage("--dry-run has no outputs to compare: leave out --compare")
	}
	if c.DryRun && (c.Follow || c.Switch) {
		return request, usage("--dry-run: leave out --follow and --switch")
	}
	if err := request.Job().Validate(); err != nil {
		return request, usage("%w", err)
	}
	request.File, err = filepath.Abs(c.File)
	for i, m := range request.Models {
		if name, file, ok := strings.Cut(m, "="); ok && err == nil {
			file, err = filepath.Abs(file)
			request.Models[i] = name + "=" + file
		}
	}
	return request, err
}
