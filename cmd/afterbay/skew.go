package main

import (
	"encoding/json"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/skew"
)

type skewCommand struct {
	File     string `arg:"" help:"Pipeline file."`
	Pipeline string `help:"Pipeline to compare, if the file has several." placeholder:"NAME"`
	Sample   string `help:"Share of the keys to compare. The hash selects them, so each run compares the same keys." default:"1%" placeholder:"SHARE"`
	tableFlags
	directoryFlags
	parallelismFlags
	JSON bool `help:"Print one object of JSON." name:"json"`
}

// Run compares the rows, and fails if any of them differ.
func (c *skewCommand) Run(a *app) error {
	rows := rowsFlags{File: c.File, Events: "-", Pipeline: c.Pipeline, tableFlags: c.tableFlags, parallelismFlags: c.parallelismFlags}
	o := rows.options(a)
	o.Open = func() (inspect.Directory, func() error, error) { return c.open(a, false) }
	r, err := skew.Check(a.ctx, a.dry(), skew.Options{RowsOptions: o, Sample: c.Sample})
	if err != nil {
		return err
	}
	if c.JSON {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(r)
	} else {
		err = r.Write(a.stdout)
	}
	if err == nil && r.Differences > 0 {
		err = fmt.Errorf("pipeline %s: %d values differ from the recomputed values", r.Pipeline, r.Differences)
	}
	return err
}
