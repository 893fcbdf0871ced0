package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lab/plot"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/process"
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
	all := a.rederive(directory, changed, request)
	last, shown := reprocess.Progress{}, time.Time{}
	for p, err := range all {
		switch {
		case err != nil && a.ctx.Err() != nil:
			fmt.Fprintf(a.stdout, "%s%d of %d events are done: the same command goes on with the others\n", generationOf(&last), last.Events, last.Of)
			return nil
		case err != nil && last.Generation > 0:
			return fmt.Errorf("%w (%d of %d events are done, and the same command goes on with the others)", err, last.Events, last.Of)
		case err != nil:
			return err
		}
		if last = p; c.JSON {
			err = json.NewEncoder(a.stdout).Encode(p)
		} else if !p.Done && time.Since(shown) > time.Second {
			shown = time.Now()
			fmt.Fprintln(a.stderr, progressLine(&p))
		}
		if err != nil {
			return err
		}
	}
	if !last.Done {
		return fmt.Errorf("the process that does it ended: %d of %d events are done, and the same command goes on with the others", last.Events, last.Of)
	}
	if !c.JSON {
		c.sumUp(a.stdout, changed.Runner.Name(), &last)
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

// rederive does it with the log, or has the process do it that holds it.
func (a *app) rederive(d inspect.Directory, changed process.Pipeline, request reprocess.Request) iter.Seq2[reprocess.Progress, error] {
	if client, ok := d.(*admin.Client); ok {
		return client.Reprocess(a.ctx, request)
	}
	if request.DryRun {
		return reprocess.DryRun(a.ctx, d.(*inspect.Local).Log, changed.Runner, request.Job())
	}
	job := request.Job()
	return reprocess.Run(a.ctx, d.(*inspect.Local).Log, changed.Runner, job)
}

func generationOf(p *reprocess.Progress) string {
	if p.Generation == 0 {
		return ""
	}
	return fmt.Sprintf("generation %d: ", p.Generation)
}

func progressLine(p *reprocess.Progress) string {
	line := fmt.Sprintf("%s%d of %d events", generationOf(p), p.Events, p.Of)
	if left := p.Of - p.Events; p.Rate > 0 && left > 0 {
		line += fmt.Sprintf(", %.0f a second, %v left", p.Rate, (time.Duration(float64(left)/p.Rate) * time.Second).Round(time.Second))
	}
	return line
}

// sumUp says what was done and what to type next.
func (c *reprocessCommand) sumUp(out io.Writer, name string, p *reprocess.Progress) {
	if c.DryRun {
		c.sumUpDryRun(out, name, p)
		return
	}
	fmt.Fprintf(out, "generation %d of %s: %d events reprocessed, to %s\n", p.Generation, name, p.Events, strings.Join(p.Topics, ", "))
	for _, m := range p.Models {
		fmt.Fprintf(out, "  %s: %d calls paid, %d answers were in the journal", m.Model, m.Calls, m.Hits)
		if m.Price > 0 {
			fmt.Fprintf(out, ", %.2f paid, %.2f saved", float64(m.Paid)*m.Price, float64(m.Saved)*m.Price)
		}
		fmt.Fprintln(out)
	}
	if p.Sink != "" {
		fmt.Fprintf(out, "  %d of its outputs handed to sink %s\n", p.Delivered, p.Sink)
	}
	for _, l := range p.Live {
		fmt.Fprintf(out, "  partition %d: live from offset %d on\n", l.Partition, l.Offset)
	}
	switch {
	case len(p.Live) > 0:
		if strings.Contains(strings.Join(c.Model, ""), "=") {
			fmt.Fprintf(out, "next: write the models of --model into %s: it is what runs from now on\n", c.File)
		} else {
			fmt.Fprintf(out, "next: %s is what runs from now on\n", c.File)
		}
	case c.State == "live" && p.Events == 0:
		fmt.Fprint(out, "next: start what runs the pipeline, and the same command reprocesses what comes\n")
	case c.From == "" && c.To == "" && c.State == "" && len(p.Into) == 0 && p.CaughtUp:
		fmt.Fprint(out, "next: the same command with --switch hands over to it\n")
	}
}

// sumUpDryRun says what would be done.
func (c *reprocessCommand) sumUpDryRun(out io.Writer, name string, p *reprocess.Progress) {
	fmt.Fprintf(out, "%d events of %s would be reprocessed: %d outputs, %d dead letters\n", p.Events, name, p.Outputs, p.Dead)
	if len(p.Models) == 0 {
		fmt.Fprintln(out, "  nothing outside of the process would be called")
	}
	for _, m := range p.Models {
		fmt.Fprintf(out, "  %s: %d calls, %d answers are in the journal", m.Model, m.Calls, m.Hits)
		if m.Price > 0 {
			fmt.Fprintf(out, "; %d x %g = %.2f to pay", m.Calls, m.Price, float64(m.Paid)*m.Price)
		}
		fmt.Fprintln(out)
	}
}
