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
	File     string   `arg:"" help:"Pipeline file as it is to be: with the new model, or changed in other ways that keep its features."`
	Pipeline string   `help:"Name of the pipeline, where the file has several."`
	Model    []string `help:"Model in place of the file's: NAME@VERSION=FILE. NAME@VERSION alone sees that the file has that one." placeholder:"NAME@VERSION[=FILE]"`
	From     string   `help:"Write nothing about events that were appended before, a time of RFC 3339; they count for features." placeholder:"TIME"`
	To       string   `help:"Leave out events that were appended from then on." placeholder:"TIME"`
	State    string   `name:"from-state" help:"Begin with the state that another generation has, and with the events behind it: a number of afterbay generations, which --to may have ended; or live, whose processes are to be stopped for the copy." placeholder:"GENERATION|live"`
	Rate     float64  `help:"Most events a second, so that live ones have room; 0 is as many as can be." default:"0"`
	Follow   bool     `help:"Go on with live events when they are reached, until a signal ends the command." short:"f"`
	Switch   bool     `help:"Hand over to the new generation when the live one is reached: from then on it writes to the pipeline's topics."`
	Into     []string `help:"Where the reprocessed outputs go: a sink of the file, after the switch for what came in between; or, instead of topics of the generation, the topic of all outputs, or by OUTPUT=TOPIC that of one. What is both is sink:NAME or topic:NAME." placeholder:"SINK|TOPIC|OUTPUT=TOPIC"`
	DryRun   bool     `name:"dry-run" help:"Say what would be computed, which calls the journal answers and what the others would cost; write nothing and call nobody."`
	Compare  bool     `help:"Say at the end how the new generation's outputs differ from those before: changed decisions, and how scores are distributed."`
	Plot     string   `help:"Draw the distributions of --compare to a file, .svg or .png." placeholder:"FILE"`
	JSON     bool     `name:"json" help:"Print how far it is as an object of JSON a line: generation, group, topics, into, first, resumed, events, of, rate, models, delivered, sink, caught_up, outputs, dead_letters, live, done; and with --compare one more: compare."`
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
		return request, usage("--dry-run: leave out --compare, for which there is nothing")
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
