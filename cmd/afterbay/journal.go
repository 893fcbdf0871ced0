package main

import (
	"encoding/json"
	"errors"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type journalCommand struct {
	Stats journalStatsCommand `cmd:"" help:"Say how many calls were paid for, how many the journal saved, and what they cost."`
}

type journalStatsCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Price map[string]float64 `help:"What a unit of a model costs, a call or a token, as in chat=0.000002;scan=0.0015, instead of what the pipeline file says by journal: {price: ...}: adds the money paid and saved." placeholder:"MODEL=PRICE;..."`
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
