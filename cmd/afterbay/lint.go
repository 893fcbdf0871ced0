package main

import (
	"encoding/json"
	"fmt"

	"github.com/afterbay/afterbay/internal/check/lint"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type lintCommand struct {
	Files   []string `arg:"" name:"file" help:"Pipeline files, manifests of models, and gateway files, which are checked against the given pipelines."`
	Connect bool     `name:"connect" help:"Also connect to model servers, the schema registry, the services of sinks and of lookups outside the log. Checks tables, columns, types and extensions of databases; fields of the newest schemas; queries; access to Redis and services; folders, buckets and topics. Changes nothing."`
	JSON    bool     `name:"json" help:"Print each finding as a line of JSON on standard output: file, line, column, path, message, hint, excerpt."`
}

// Run checks the files and prints all errors.
func (c *lintCommand) Run(a *app) error {
	r := lint.CheckFiles(a.ctx, a.loader(), c.Files, c.Connect)
	for _, e := range r.Findings {
		if err := a.printFinding(e, c.JSON); err != nil {
			return err
		}
	}
	for _, line := range r.Valid {
		if !c.JSON {
			fmt.Fprintln(a.stdout, line)
		}
	}
	if n := len(r.Findings); n > 0 {
		return failure.As(failure.OfFiles, fmt.Errorf("%s in %s", counted(n, "finding"), counted(r.Files, "file")))
	}
	return nil
}

func counted(n int, what string) string { return term.Counted(n, what) }

// printedFinding is a finding in the JSON output.
type printedFinding struct {
	File    string `json:"file"`    // as on the command line
	Line    int    `json:"line"`    // from 1; 0 if the finding is about the whole file
	Column  int    `json:"column"`  // in characters, from 1; 0 if line is 0
	Path    string `json:"path"`    // the field, such as steps[1].score.inputs[2]; empty if the file is not valid YAML
	Message string `json:"message"` // what is wrong
	Hint    string `json:"hint"`    // what to do next
	Excerpt string `json:"excerpt"` // the line and, below it, a caret at the column; may be empty
}

// printFinding prints a finding: JSON to standard output, or text to standard error.
func (a *app) printFinding(e *config.Error, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(a.stderr, e)
		return err
	}
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(printedFinding{e.File, e.Line, e.Column, e.Field, e.Message, e.Hint, e.Excerpt})
}
