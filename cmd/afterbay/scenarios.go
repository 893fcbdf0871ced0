package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/scenario"
)

type testCommand struct {
	Files  []string `arg:"" name:"file" help:"Scenario files."`
	Update bool     `help:"Write the actual results into the files, instead of different expected results."`
}

// Run runs the scenarios and prints for each whether it passed.
func (c *testCommand) Run(a *app) error {
	meter := term.NewMeter(a.stderr)
	failed := 0
	for i, file := range c.Files {
		failures, err := scenario.Run(a.ctx, file, scenario.Options{
			Update: c.Update, Announce: a.announce,
			Progress: func(way string, number, of int) {
				meter.Show("scenario %d of %d: %s: way %d of %d, %s", i+1, len(c.Files), file, number, of, way)
			},
		})
		meter.Clear()
		if a.ctx.Err() != nil {
			return errors.New("stopped by a signal")
		}
		if err == nil && len(failures) == 0 {
			fmt.Fprintf(a.stdout, "ok    %s\n", file)
			continue
		}
		failed++
		fmt.Fprintf(a.stdout, "FAIL  %s\n", file)
		for _, f := range failures {
			fmt.Fprintf(a.stdout, "%s\n", indented(f.Error()))
		}
		if err != nil {
			fmt.Fprintf(a.stdout, "%s\n", indented(err.Error()))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, counted(len(c.Files), "scenario"))
	}
	fmt.Fprintf(a.stdout, "%s passed\n", counted(len(c.Files), "scenario"))
	return nil
}

// indented puts four spaces before each line.
func indented(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
