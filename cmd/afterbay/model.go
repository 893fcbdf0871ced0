package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/check/registry"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/models"
	python "github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/model"
)

type modelCommand struct {
	Inspect modelInspectCommand `cmd:"" help:"Describe a model."`
	Score   modelScoreCommand   `cmd:"" help:"Score the rows of a CSV file: margin and prediction, at full precision."`
	Verify  modelVerifyCommand  `cmd:"" help:"Check models against their manifests: digest, inputs, golden vectors."`
	Bench   modelBenchCommand   `cmd:"" help:"Measure calls of a model by their size, and write the best batch policy into its manifest."`
	Add     modelAddCommand     `cmd:"" help:"Copy a model into a folder of models, with a manifest and golden vectors."`
	List    modelListCommand    `cmd:"" help:"List the models of a folder."`
	Helper  modelHelperCommand  `cmd:"" help:"Print worker.py, which turns a Python function into a model of kind process."`
	Runtime modelRuntimeCommand `cmd:"" help:"Install ONNX Runtime, which models of ONNX other than trees need."`
}

type modelInspectCommand struct {
	File string `arg:"" help:"Model (XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx of trees, a text model) or its manifest, .yaml."`
}

type modelScoreCommand struct {
	File string `arg:"" help:"Model (XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx of trees, a text model) or its manifest, .yaml."`
	Rows string `arg:"" optional:"" name:"csv" help:"CSV file with a header; - is standard input. An empty cell is a missing value." default:"-"`
}

// Run describes the model.
func (c *modelInspectCommand) Run(a *app) error {
	m, _, _, err := a.registry().Inspect(a.ctx, c.File)
	if err != nil {
		return err
	}
	info := m.Info()
	names := strings.Join(info.Names(), ", ")
	if names == "" {
		names = "none in the file: columns count by their order"
	}
	fmt.Fprintf(a.stdout, "kind     %s\nshape    %s\ndigest   sha256:%s\ntrees    %d\noutputs  %d\ninputs   %d\nnames    %s\n",
		info.Kind, info.Describe, info.Digest, info.Trees, info.Scores(), len(info.Inputs), names)
	for i, in := range info.Inputs {
		if in.Categories != nil {
			fmt.Fprintf(a.stdout, "codes    input %s takes %s\n", cmp.Or(in.Name, strconv.Itoa(i)), codesOf(in.Categories))
		}
	}
	return nil
}

// codesOf writes the meaning of the numbers of a categorical input as a table of constants. A
// pipeline can use the table for its mapping.
func codesOf(labels []string) string {
	var text strings.Builder
	for i, label := range labels {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%q: %d", label, i)
	}
	return "{" + text.String() + "}"
}

type modelHelperCommand struct{}

// Run prints the helper file.
func (modelHelperCommand) Run(a *app) error {
	_, err := io.WriteString(a.stdout, python.Helper())
	return err
}

// Run scores the rows.
func (c *modelScoreCommand) Run(a *app) error {
	m, _, _, err := a.registry().Load(a.ctx, c.File)
	if err != nil {
		return err
	}
	rows, err := a.openEvents(c.Rows, string(ingest.CSV))
	if err != nil {
		return err
	}
	defer rows.Close()
	return models.Score(a.ctx, models.First(m), rows, rows.Name, a.stdout, a.stderr)
}

// registry opens the models of the command. Their processes and connections end with the command.
func (a *app) registry() *registry.Registry {
	return &registry.Registry{Kinds: fileKinds(), Opening: a.opening(), Logger: a.log, Own: func(m model.Model) { a.ends = append(a.ends, func() { models.Close(m) }) }}
}
