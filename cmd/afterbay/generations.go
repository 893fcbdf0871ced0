package main

import (
	"encoding/json"
	"errors"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type generationsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	JSON bool `name:"json" help:"Print one object of JSON: pipeline, mixed, partitions, a list of partition, generation, fingerprint, from, since, and reprocessed, a list of generation, group, models, begun, live."`
}

// Run prints which generations compute the partitions of a pipeline.
func (c *generationsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	r, err := report.ReadGenerations(a.ctx, directory, c.Pipeline)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	return r.Write(a.stdout)
}
