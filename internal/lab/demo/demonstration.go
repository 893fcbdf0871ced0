package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/term"
)

// Demonstration runs the fraud example once over generated payments.
type Demonstration struct {
	Dir         string
	Events      int
	Seed        uint64
	Parallelism int
	Loader      *process.Loader
	Out, Err    io.Writer

	ctx     context.Context
	example *Example
	runner  *pipeline.Runner
	log     *embedded.Log
	took    time.Duration
	meter   *term.Meter
}

// Run runs the demonstration and prints a summary.
func (d *Demonstration) Run(ctx context.Context) (err error) {
	d.ctx = ctx
	if d.example, err = NewExample(d.Dir, FraudFiles()); err != nil {
		return err
	}
	if d.runner, err = d.example.load(d.Loader, pipeline.Options{Members: process.Members(d.Parallelism), Logger: d.Loader.Logger}); err != nil {
		return err
	}
	if d.log, err = process.OpenDirectory(d.example.Data(), d.Loader.Logger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.log.Close()) }()
	if err := d.process(); err != nil {
		return err
	}
	if d.ctx.Err() != nil {
		fmt.Fprintln(d.Err, "stopped by a signal: committed records stay")
		return nil
	}
	found, err := countOutputs(d.ctx, &inspect.Local{Log: d.log}, d.runner.Outputs())
	if err != nil {
		return err
	}
	return d.summary(found)
}

// process appends the payments while the pipeline runs, and waits until all are processed.
func (d *Demonstration) process() error {
	if err := d.runner.CreateTopics(d.ctx, d.log); err != nil {
		return err
	}
	d.meter = term.NewMeter(d.Err)
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.runner.Run(ctx, d.log) })
	group.Go(func() error {
		defer stop()
		return d.publish(ctx)
	})
	group.Go(func() error {
		d.watch(ctx)
		return nil
	})
	err := group.Wait()
	process.KeepTimings(d.Loader.Logger, d.example.Data(), d.runner)
	d.meter.Clear()
	if d.ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Demonstration) publish(ctx context.Context) error {
	start := time.Now()
	source, end := payments(fraud.Options{Seed: d.Seed, Events: d.Events})
	_, err := ingest.Publish(ctx, d.log, source, ingest.Options{Name: "payments", Topic: exampleTopic, Key: "customer", Producer: "demo"})
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	err = d.runner.WaitIdle(ctx, d.log)
	d.took = time.Since(start)
	return err
}

// watch shows the progress until ctx is done.
func (d *Demonstration) watch(ctx context.Context) {
	ticker := time.NewTicker(term.MeterEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c := d.runner.Counts()
			d.meter.Show("%d of %d payments decided, %d dead letters, %s", c.Events, d.Events, c.DeadLetters, d.meter.Rate(int64(c.Events)))
		}
	}
}

// outputs counts the records in the output topics of a pipeline.
type outputs struct {
	records   int
	decisions map[string]int // by kind
	dead      map[string]int // by stage
	repeated  int            // outputs with the id of another output
}

var actionField = []byte(`"action":"`)

// countOutputs reads the output topics of a pipeline. The topic of dead letters must be the last.
func countOutputs(ctx context.Context, directory inspect.Directory, topics []string) (*outputs, error) {
	found := &outputs{decisions: map[string]int{}, dead: map[string]int{}}
	for i, topic := range topics {
		ids := map[string]bool{}
		for r, err := range directory.Records(ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
			if err != nil {
				return nil, err
			}
			found.records++
			for _, h := range r.Headers {
				switch {
				case h.Key == header.ID && ids[string(h.Value)]:
					found.repeated++
				case h.Key == header.ID:
					ids[string(h.Value)] = true
				case h.Key == header.Stage && i == len(topics)-1:
					found.dead[string(h.Value)]++
				}
			}
			if _, after, ok := bytes.Cut(r.Value, actionField); ok && i == 0 {
				action, _, _ := bytes.Cut(after, []byte{'"'})
				found.decisions[string(action)]++
			}
		}
	}
	return found, nil
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// summary prints the results, and checks that each payment produced exactly one decision or dead
// letter.
func (d *Demonstration) summary(found *outputs) error {
	m := d.runner.Snapshot()
	c := &m.Counts
	decisions, dead := total(found.decisions), total(found.dead)
	out := d.Out
	fmt.Fprintf(out, "%d card payments became %d decisions and %d dead letters in %s: %.0f events/s, generated and appended beside it\n\n",
		c.Events, decisions, dead, d.took.Round(time.Millisecond), float64(c.Events)/d.took.Seconds())
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "phase\tp50\tp99\t")
	for _, phase := range d.runner.Phases() {
		s := m.Phases[phase.String()].Histogram
		fmt.Fprintf(table, "%s\t%s\t%s\t\n", phase, short(s.Quantile(0.5)), short(s.Quantile(0.99)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ndecisions     %s\ndead letters  %s\nlate events   %d, counted in as the pipeline asks\n", term.Counts(found.decisions), term.Counts(found.dead), c.Late)
	for _, model := range d.runner.Plan.Models {
		fmt.Fprintf(out, "model         %s\n", model)
	}
	if decisions+dead != d.Events || int(c.Events) != d.Events || found.repeated > 0 {
		return fmt.Errorf("%d payments, but %d decisions, %d dead letters and %d repeated ids: this is a defect, please report it", d.Events, decisions, dead, found.repeated)
	}
	fmt.Fprintf(out, "exactly once  yes: %d ids, none twice\n", found.records)
	data := d.example.Data()
	fmt.Fprintf(out, `
look further:
  afterbay tail decisions --data %[1]s --limit 3 --headers
  afterbay tail %[2]s.dlq --data %[1]s --limit 3 --headers
  afterbay explain %[2]s:transactions/0@100:decisions %[4]s --data %[1]s
  afterbay topics --data %[1]s
  afterbay state dump %[2]s --data %[1]s
  afterbay model inspect %[3]s
  afterbay run %[4]s --data %[1]s
`, data, d.runner.Name(), strings.Replace(d.example.Pipeline(), examplePipeline, ModelName, 1), d.example.Pipeline())
	return nil
}

// short formats a duration with three digits.
func short(d time.Duration) string {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
