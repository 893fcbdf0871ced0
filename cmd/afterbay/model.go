package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/tree"
)

type modelCommand struct {
	Inspect modelInspectCommand `cmd:"" help:"Describe a model."`
	Score   modelScoreCommand   `cmd:"" help:"Score the rows of a CSV file: margin and prediction, at full precision."`
}

type modelInspectCommand struct {
	File string `arg:"" help:"XGBoost model, .json or .ubj."`
}

type modelScoreCommand struct {
	File string `arg:"" help:"XGBoost model, .json or .ubj."`
	Rows string `arg:"" optional:"" name:"csv" help:"CSV file with a header; - is standard input. An empty cell is a missing value." default:"-"`
}

func loadModel(path string) (*tree.Model, error) {
	m, err := tree.Load(path)
	if err != nil {
		return nil, &exitError{exitInvalid, fmt.Errorf("%w: name a model that XGBoost saved as .json or .ubj", err)}
	}
	return m, nil
}

// Run describes the model.
func (c *modelInspectCommand) Run(a *app) error {
	m, err := loadModel(c.File)
	if err != nil {
		return err
	}
	info := m.Info()
	names := strings.Join(info.Names, ", ")
	if names == "" {
		names = "none in the file: columns count by their order"
	}
	fmt.Fprintf(a.stdout, "kind     %s\nshape    %s\ndigest   sha256:%s\ntrees    %d\noutputs  %d\ninputs   %d\nnames    %s\n",
		info.Kind, info.Describe, info.Digest, info.Trees, info.Outputs, info.Inputs, names)
	for i := range info.Inputs {
		if labels := m.Categories(i); labels != nil {
			fmt.Fprintf(a.stdout, "codes    input %s takes %s\n", inputName(info, i), codes(labels))
		}
	}
	return nil
}

func inputName(info model.Info, i int) string {
	if i < len(info.Names) {
		return info.Names[i]
	}
	return strconv.Itoa(i)
}

// codes writes what the numbers of a categorical input stand for, as the table
// of constants that a pipeline maps them with.
func codes(labels []string) string {
	var text strings.Builder
	for i, label := range labels {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%q: %d", label, i)
	}
	return "{" + text.String() + "}"
}

// Run scores the rows.
func (c *modelScoreCommand) Run(a *app) error {
	m, err := loadModel(c.File)
	if err != nil {
		return err
	}
	source, name := a.stdin, "standard input"
	if c.Rows != "-" {
		file, err := os.Open(c.Rows)
		if err != nil {
			return fmt.Errorf("%w: name a CSV file that can be read, or - for standard input", err)
		}
		defer file.Close()
		source, name = file, c.Rows
	}
	return a.score(m, source, name)
}
