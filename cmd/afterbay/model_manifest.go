package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/model"
)

const (
	manifestName = "model.yaml"
	goldenName   = "golden.csv"
	goldenRows   = 64   // that are made up, or taken of --rows
	sweepRows    = 1024 // of the largest call that is measured
)

type modelVerifyCommand struct {
	Manifests []string `arg:"" help:"Manifests of models, .yaml."`
}

// Run verifies the manifests one by one.
func (c *modelVerifyCommand) Run(a *app) error {
	wrong := 0
	for _, path := range c.Manifests {
		if !model.IsManifest(path) {
			return usage("%s: name a manifest, .yaml: `afterbay model add` writes one", path)
		}
		m, manifest, report, err := a.loadModel(path)
		if err != nil {
			fmt.Fprintln(a.stderr, err)
			wrong++
			continue
		}
		said := "no golden vectors: name a file of them with golden, as `afterbay model add` does"
		if report.Rows > 0 {
			said = fmt.Sprintf("%s hold, alone, shuffled and beside others", counted(report.Rows, "golden vector"))
			if report.Exact != "" {
				said += fmt.Sprintf("; %ss differ by %g at most", report.Exact, report.Worst)
			}
		}
		fmt.Fprintf(a.stdout, "%s: %s version %d, %s: %s\n", path, manifest.Name, manifest.Version, m.Info().Kind, said)
	}
	if wrong > 0 {
		return failure.As(failure.OfFiles, fmt.Errorf("%s of %d not usable", counted(wrong, "model"), len(c.Manifests)))
	}
	return nil
}

type modelBenchCommand struct {
	File     string        `arg:"" help:"Manifest of a model, .yaml, or a model alone."`
	Rows     string        `help:"CSV file of rows to score; the default is the golden vectors, or rows that are made up." placeholder:"CSV"`
	Duration time.Duration `help:"How long to measure." default:"2s"`
	DryRun   bool          `name:"dry-run" help:"Print the policy, but do not write it into the manifest."`
}

// Run measures and writes the policy.
func (c *modelBenchCommand) Run(a *app) error {
	costs, policy, manifest, err := c.sweep(a)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%8s %12s %12s %14s\n", "rows", "p50", "p99", "rows/s")
	for _, cost := range costs {
		sorted := ""
		if cost.ByLength {
			sorted = "  sorted by length"
		}
		fmt.Fprintf(a.stdout, "%8d %12v %12v %14.0f%s\n", cost.Rows, cost.P50, cost.P99, cost.PerSecond, sorted)
	}
	if manifest != nil {
		policy.Wait = manifest.Batch.Wait
	}
	fmt.Fprintf(a.stdout, "batch: size %d, sorted by length: %v\n", policy.Size, policy.ByLength)
	if manifest == nil || c.DryRun {
		return nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	text = lang.WithPolicy(text, policy)
	if _, err := lang.ParseManifest(c.File, text, fileKinds()); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	return replaceFile(c.File, text)
}

// sweep measures calls by their size. The manifest is nil where there is none.
func (c *modelBenchCommand) sweep(a *app) ([]models.Cost, model.Policy, *config.Manifest, error) {
	m, manifest, err := c.load(a)
	if err != nil {
		return nil, model.Policy{}, nil, err
	}
	m = models.First(m)
	limit, from := 0, c.Rows
	if manifest != nil {
		limit, from = manifest.Limits.Rows, cmp.Or(c.Rows, manifest.Golden)
	}
	var rows model.Rows
	if from != "" {
		rows, err = models.ReadRows(from, m, 10_000)
	} else {
		rows, err = models.Generate(m, goldenRows)
	}
	if err != nil {
		return nil, model.Policy{}, nil, fmt.Errorf("%w: name a CSV file of rows with --rows", err)
	}
	costs, policy, err := models.Sweep(a.ctx, m, rows, limit, c.Duration)
	return costs, policy, manifest, err
}

// load loads the model, one of ONNX as it computes any number of rows in a call:
// unless that changes their scores by too much.
func (c *modelBenchCommand) load(a *app) (model.Model, *config.Manifest, error) {
	if model.IsManifest(c.File) {
		if wide, err := config.LoadManifest(c.File, fileKinds()); err == nil && wide.Kind == "onnx" {
			wide.Batch.Size = cmp.Or(wide.Limits.Rows, sweepRows)
			if m, _, err := a.verified(&wide.Manifest); err == nil {
				return m, wide, nil
			}
		}
	}
	m, manifest, _, err := a.loadModel(c.File)
	return m, manifest, err
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // it is renamed where all went well
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

type modelAddCommand struct {
	File    string   `arg:"" help:"Model: XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx, a text model."`
	Name    string   `help:"Name of the model." required:"" placeholder:"NAME"`
	Version string   `help:"Version of the model, a number from 1 that is raised with the file." required:"" placeholder:"N"`
	Inputs  []string `help:"Names of the inputs, in the order of training, where the file has none; the default is f0, f1 and so on." placeholder:"NAME"`
	Outputs []string `help:"Names of the outputs, in the model's order; the default is what the model calls them." placeholder:"NAME"`
	Golden  string   `help:"Golden vectors: CSV of inputs with what the framework that trained the model says of them, in columns margin or score, and prediction." placeholder:"CSV"`
	Rows    string   `help:"Instead of --golden: CSV of inputs, of which the model's own scores become the golden vectors." placeholder:"CSV"`
	Trees   string   `help:"Which trees count of an XGBoost file that stopped early: all, or best, those up to the best iteration. The default is what predict of the interface that saved the file takes." enum:"all,best," default:"" placeholder:"WHICH"`
	Dir     string   `help:"Folder of models: the model goes to DIR/NAME/VERSION." default:"models" placeholder:"DIR"`
}

// Run writes the folder of a model's version.
func (c *modelAddCommand) Run(a *app) error {
	version, err := strconv.Atoi(c.Version)
	if err != nil || version < 1 {
		return usage("--version %s: it is a number from 1 that is raised with the file: by any other name the same log would score differently after a new file", c.Version)
	}
	if c.Golden != "" && c.Rows != "" {
		return usage("--golden and --rows exclude each other: the scores are those of the framework, or the model's own")
	}
	if strings.ContainsAny(c.Name, `/\`) || c.Name == "." || c.Name == ".." || c.Name == "" {
		return usage("--name %q: it is the name of a folder too", c.Name)
	}
	said, err := c.describe(a, version)
	if err != nil {
		return err
	}
	target := filepath.Join(c.Dir, c.Name, c.Version)
	if _, err := os.Lstat(target); err == nil {
		return fmt.Errorf("%s is there already: a version is never replaced, raise --version", target)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(target), "."+c.Version+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made) // it is renamed where all went well
	rows, err := c.write(a, made, said)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(made, 0o755), os.Rename(made, target)); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s hold\n", filepath.Join(target, manifestName), counted(rows, "golden vector"))
	return nil
}

// describe returns the manifest of the model's file.
func (c *modelAddCommand) describe(a *app, version int) (*model.Manifest, error) {
	m, _, _, err := a.loadModel(c.File)
	var graph *models.GraphError
	switch {
	case err == nil:
		return c.manifest(m.Info(), version), nil
	case !errors.As(err, &graph):
		return nil, err
	case len(c.Inputs) > 0 || len(c.Outputs) > 0:
		return nil, usage("--inputs and --outputs are for files without names: inputs and outputs of %s are called as in its graph", c.File)
	}
	said := graph.Manifest
	said.Name, said.Version, said.Golden = c.Name, version, goldenName
	if len(graph.Open) > 0 {
		return nil, withManifest(c.File, graph, fmt.Errorf("%s leaves open what the model takes or returns: export it again with that", c.File))
	}
	return said, nil
}

// withManifest returns err with the manifest of a graph of ONNX to be completed.
func withManifest(path string, graph *models.GraphError, err error) error {
	said := *graph.Manifest
	base := filepath.Base(path)
	short := strings.TrimSuffix(base, filepath.Ext(base))
	said.Name, said.Version, said.File = cmp.Or(said.Name, short), cmp.Or(said.Version, 1), base
	said.Golden = "" // not made yet
	var text strings.Builder
	for _, open := range graph.Open {
		fmt.Fprintf(&text, "# %s\n", open)
	}
	text.Write(lang.FormatManifest(&said))
	return failure.As(failure.OfFiles, fmt.Errorf("%w. Or complete this manifest, save it beside the model as %s, and name that file instead:\n\n%s", err, short+".yaml", strings.TrimSuffix(text.String(), "\n")))
}

// manifest says of a model what its file says.
func (c *modelAddCommand) manifest(info model.Info, version int) *model.Manifest {
	said := &model.Manifest{
		Name: c.Name, Version: version, Kind: info.Kind, File: filepath.Base(c.File), Digest: info.Digest, Golden: goldenName,
		Trees: c.Trees,
	}
	for i, in := range info.Inputs {
		name := cmp.Or(in.Name, "f"+strconv.Itoa(i))
		if i < len(c.Inputs) && in.Name == "" {
			name = c.Inputs[i]
		}
		said.Inputs = append(said.Inputs, model.ManifestInput{Name: name, Type: in.Type, Shape: in.Shape})
	}
	names := c.Outputs
	if len(names) == 0 {
		for _, out := range info.Outputs {
			names = append(names, models.Numbered(cmp.Or(out.Name, "score"), out.Size)...)
		}
	}
	for _, name := range names {
		said.Outputs = append(said.Outputs, model.Output{Name: name, Size: 1})
	}
	return said
}

// write fills the folder of a version, verifies it, and returns how many golden
// vectors it has.
func (c *modelAddCommand) write(a *app, dir string, said *model.Manifest) (int, error) {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, said.File), data, 0o644); err != nil {
		return 0, err
	}
	within := *said
	within.File, within.Golden = filepath.Join(dir, said.File), ""
	m, _, err := a.verified(&within)
	if err != nil {
		return 0, failure.As(failure.OfFiles, fmt.Errorf("%w. Nothing was added", err))
	}
	if open := m.Info().Ambiguous; open != "" {
		a.log.Warn(open + ": name one with --trees, and with another --version")
	}
	if err := c.writeGolden(a, m, filepath.Join(dir, goldenName)); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), lang.FormatManifest(said), 0o644); err != nil {
		return 0, err
	}
	_, _, report, err := a.loadModel(filepath.Join(dir, manifestName))
	return report.Rows, err
}

func (c *modelAddCommand) writeGolden(a *app, m model.Model, path string) error {
	if c.Golden != "" {
		data, err := os.ReadFile(c.Golden)
		if err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o644)
	}
	var rows model.Rows
	var err error
	if c.Rows != "" {
		rows, err = models.ReadRows(c.Rows, m, goldenRows)
	} else {
		rows, err = models.Generate(m, goldenRows)
	}
	if err != nil {
		return fmt.Errorf("%w: name a CSV file of rows with --rows, or of rows and their scores with --golden", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(models.WriteGolden(a.ctx, file, m, models.Columns(m.Info()), rows), file.Close())
}

type modelListCommand struct {
	Dir string `arg:"" optional:"" help:"Folder of models." default:"models"`
}

// Run lists the manifests of a folder, by name and version.
func (c *modelListCommand) Run(a *app) error {
	var found []*config.Manifest
	err := filepath.WalkDir(c.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != manifestName {
			return err
		}
		m, err := config.LoadManifest(path, fileKinds())
		if err != nil {
			fmt.Fprintln(a.stderr, err)
			return nil
		}
		found = append(found, m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: name a folder that `afterbay model add` writes to", err)
	}
	slices.SortStableFunc(found, func(x, y *config.Manifest) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Version, y.Version))
	})
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
