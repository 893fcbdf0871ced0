package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/check/registry"
)

type modelAddCommand struct {
	File    string   `arg:"" help:"Model: XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx, a text model."`
	Name    string   `help:"Name of the model." required:"" placeholder:"NAME"`
	Version string   `help:"Version of the model: a number from 1, raised when the file changes." required:"" placeholder:"N"`
	Inputs  []string `help:"Names of the inputs, in the order of training, if the file has no names; the default is f0, f1 and so on." placeholder:"NAME"`
	Outputs []string `help:"Names of the outputs, in the model's order; the default is the model's own names." placeholder:"NAME"`
	Golden  string   `help:"Golden vectors: CSV of inputs and the outputs of the training framework, in columns margin or score, and prediction." placeholder:"CSV"`
	Rows    string   `help:"Instead of --golden: CSV of inputs. The model's own scores become the golden vectors." placeholder:"CSV"`
	Trees   string   `help:"Trees of an XGBoost file with early stopping: all, or best, the trees up to the best iteration. The default is that of predict in the interface that saved the file." enum:"all,best," default:"" placeholder:"WHICH"`
	Dir     string   `help:"Folder of models: the model goes to DIR/NAME/VERSION." default:"models" placeholder:"DIR"`
}

// Run creates the folder of a model version.
func (c *modelAddCommand) Run(a *app) error {
	version, err := strconv.Atoi(c.Version)
	if err != nil || version < 1 {
		return usage("--version %s: use a number from 1, and raise it when the file changes: otherwise the same log would score differently after a new file", c.Version)
	}
	if c.Golden != "" && c.Rows != "" {
		return usage("--golden and --rows exclude each other: --golden has scores of the framework, --rows uses the model's own scores")
	}
	if strings.ContainsAny(c.Name, `/\`) || c.Name == "." || c.Name == ".." || c.Name == "" {
		return usage("--name %q: it is the name of a folder too", c.Name)
	}
	target, rows, err := a.registry().Add(a.ctx, registry.Addition{
		File: c.File, Name: c.Name, Version: version, Inputs: c.Inputs, Outputs: c.Outputs, Golden: c.Golden, Rows: c.Rows, Trees: c.Trees, Dir: c.Dir,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s passed\n", target, counted(rows, "golden vector"))
	return nil
}

type modelListCommand struct {
	Dir string `arg:"" optional:"" help:"Folder of models." default:"models"`
}

// Run lists the manifests of a folder, by name and version.
func (c *modelListCommand) Run(a *app) error {
	found, err := a.registry().List(c.Dir, func(err error) { fmt.Fprintln(a.stderr, err) })
	if err != nil {
		return err
	}
	for _, m := range found {
		where := m.File
		if m.Config != nil {
			where = cmp.Or(m.Config.Describe(), m.File)
		}
		digest := "-"
		if m.Digest != "" {
			digest = fmt.Sprintf("sha256:%.12s", m.Digest)
		}
		fmt.Fprintf(a.stdout, "%-20s %4d  %-10s  %-19s  %s\n", m.Name, m.Version, cmp.Or(m.Kind, "-"), digest, where)
	}
	return nil
}
