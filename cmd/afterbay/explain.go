package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

type explainCommand struct {
	ID    string   `arg:"" name:"id" help:"Header afterbay-id of an output or dead letter, or topic/partition@offset of one or of an event."`
	Files []string `arg:"" optional:"" name:"file" help:"Pipeline files: replay the partition up to the event, and print the row of the output."`
	directoryFlags
	JSON bool `help:"Print one object of JSON." name:"json"`
}

// Run prints where one output came from.
func (c *explainCommand) Run(a *app) (err error) {
	var pipelines []lang.Pipeline
	var loaded []process.Pipeline
	if len(c.Files) > 0 {
		if loaded, err = a.load(c.Files, 1, nil, noPrograms); err != nil {
			return err
		}
		for _, p := range loaded {
			one := p.Source.Pipelines[p.Index]
			pipelines = append(pipelines, one)
		}
	}
	directory, closeDirectory, err := c.open(a, false, loaded...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	meter := term.NewMeter(a.stderr)
	report, err := explain.Explain(a.ctx, c.ID, explain.Options{
		Directory: directory, Pipelines: pipelines, Timing: c.timings(directory), Announce: a.announce, ModelKinds: fileKinds().Models,
		Progress: func(what string, n, of int64) { meter.Show("%s: %d of %d records", what, n, of) },
	})
	meter.Clear()
	if errors.Is(err, explain.ErrOtherPipeline) {
		return failure.As(failure.OfUsage, err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(report)
	}
	if err := report.Write(a.stdout); err != nil {
		return err
	}
	if len(c.Files) == 0 {
		fmt.Fprintf(a.stdout, "%-14s name the pipeline file to see the feature row: afterbay explain %s FILE\n", "replay", c.ID)
	}
	return nil
}

// timings returns a function that finds the timing of events. It asks the process that runs the
// pipeline, or reads the timings that an ended process left in the directory.
func (c *explainCommand) timings(directory inspect.Directory) func(context.Context, string, stream.Partition, stream.Offset) (inspect.Timing, bool, error) {
	var left explain.Timings
	if c.engine != nil {
		left = explain.ReadTimings(c.engine.Folder(c.Data))
	}
	client, _ := directory.(*admin.Client)
	return func(ctx context.Context, pipeline string, p stream.Partition, offset stream.Offset) (inspect.Timing, bool, error) {
		if client != nil {
			if timing, found, err := client.Timing(ctx, pipeline, p, offset); found || err != nil {
				return timing, found, err
			}
		}
		timing, found := left.Find(pipeline, p, offset)
		return timing, found, nil
	}
}
