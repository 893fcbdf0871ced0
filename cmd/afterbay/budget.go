package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type budgetCommand struct {
	Pipeline string `arg:"" help:"Name of a pipeline that runs."`
	directoryFlags
	JSON bool   `name:"json" help:"Print one object of JSON, times in seconds."`
	Plot string `help:"Draw the phases and their shares of the budget into an SVG file." placeholder:"FILE"`
}

// Run prints how much of a pipeline's latency budget its events used.
func (c *budgetCommand) Run(a *app) error {
	client, err := c.process(a, errors.New("no process here knows the times of events: start afterbay run, and name its directory with --data or, on Kafka, its address with --url http://host:port"))
	if err != nil {
		return err
	}
	b, err := client.Budget(a.ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if c.Plot != "" {
		if err := os.WriteFile(c.Plot, []byte(report.PlotBudget(b)), 0o644); err != nil {
			return fmt.Errorf("draw the budget: %w", err)
		}
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(b)
	}
	return report.WriteBudget(a.stdout, b)
}
