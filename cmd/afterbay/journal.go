package main

import (
	"encoding/json"
	"errors"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type journalCommand struct {
	Stats journalStatsCommand `cmd:"" help:"Show how many calls were paid, how many the journal saved, and their cost."`
}

type journalStatsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Price map[string]float64 `help:"Price of a unit of a model (a call or a token), such as chat=0.000002;scan=0.0015. It replaces journal: {price: ...} of the pipeline file, and adds the money paid and saved." placeholder:"MODEL=PRICE;..."`
	JSON  bool               `name:"json" help:"Print one object of JSON: answers, bytes, models, a list of model, calls, hits, paid, saved, which are units, money_paid, money_saved."`
}

// Run prints how many calls the journal of a pipeline saved.
func (c *journalStatsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	priced, err := report.ReadJournal(a.ctx, directory, c.Pipeline, c.Price)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(priced)
	}
	return priced.Write(a.stdout)
}
