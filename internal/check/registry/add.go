package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/model"
)

// Addition is a version of a model to add to a folder. The flags of afterbay model add describe the
// fields.
type Addition struct {
	File, Name      string
	Version         int
	Inputs, Outputs []string
	Golden, Rows    string
	Trees           string
	Dir             string
}

// Add writes the folder of a model's version. It returns the path of the manifest, and how many
// golden vectors passed.
func (r *Registry) Add(ctx context.Context, c Addition) (string, int, error) {
	said, err := c.describe(ctx, r)
	if err != nil {
		return "", 0, err
	}
	target := filepath.Join(c.Dir, c.Name, strconv.Itoa(c.Version))
	if _, err := os.Lstat(target); err == nil {
		return "", 0, fmt.Errorf("%s exists already: a version is never replaced, raise --version", target)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", 0, err
	}
	made, err := os.MkdirTemp(filepath.Dir(target), "."+strconv.Itoa(c.Version)+".*")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(made) // on success the folder has been renamed
	rows, err := c.write(ctx, r, made, said)
	if err != nil {
		return "", 0, err
	}
	if err := errors.Join(os.Chmod(made, 0o755), os.Rename(made, target)); err != nil {
		return "", 0, err
	}
	return filepath.Join(target, manifestName), rows, nil
}

// describe returns the manifest for the model's file.
func (c *Addition) describe(ctx context.Context, r *Registry) (*model.Manifest, error) {
	m, _, _, err := r.Load(ctx, c.File)
	var graph *models.GraphError
	switch {
	case err == nil:
		return c.manifest(m.Info()), nil
	case !errors.As(err, &graph):
		return nil, err
	case len(c.Inputs) > 0 || len(c.Outputs) > 0:
		return nil, failure.Usage("--inputs and --outputs are for files without names: inputs and outputs of %s are called as in its graph", c.File)
	}
	said := graph.Manifest
	said.Name, said.Version, said.Golden = c.Name, c.Version, goldenName
	if len(graph.Open) > 0 {
		return nil, withManifest(c.File, graph, fmt.Errorf("%s leaves open what the model takes or returns: export it again with that", c.File))
	}
	return said, nil
}

// withManifest adds to err a manifest for an ONNX graph that the user must complete.
func withManifest(path string, graph *models.GraphError, err error) error {
	said := *graph.Manifest
	base := filepath.Base(path)
	short := strings.TrimSuffix(base, filepath.Ext(base))
	said.Name, said.Version, said.File = cmp.Or(said.Name, short), cmp.Or(said.Version, 1), base
	said.Golden = "" // not created yet
	var text strings.Builder
	for _, open := range graph.Open {
		fmt.Fprintf(&text, "# %s\n", open)
	}
	text.Write(lang.FormatManifest(&said))
	return failure.As(failure.OfFiles, fmt.Errorf("%w. Or complete this manifest, save it beside the model as %s, and name that file instead:\n\n%s", err, short+".yaml", strings.TrimSuffix(text.String(), "\n")))
}

// manifest returns a manifest with the facts of the model's file.
func (c *Addition) manifest(info model.Info) *model.Manifest {
	said := &model.Manifest{
		Name: c.Name, Version: c.Version, Kind: info.Kind, File: filepath.Base(c.File), Digest: info.Digest, Golden: goldenName,
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

// write fills the folder of a version, verifies it, and returns its number of golden vectors.
func (c *Addition) write(ctx context.Context, r *Registry, dir string, said *model.Manifest) (int, error) {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, said.File), data, 0o644); err != nil {
		return 0, err
	}
	within := *said
	within.File, within.Golden = filepath.Join(dir, said.File), ""
	m, _, err := r.verified(ctx, &within)
	if err != nil {
		return 0, failure.As(failure.OfFiles, fmt.Errorf("%w. Nothing was added", err))
	}
	if open := m.Info().Ambiguous; open != "" {
		r.Logger.Warn(open + ": name one with --trees, and with another --version")
	}
	if err := c.writeGolden(ctx, m, filepath.Join(dir, goldenName)); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), lang.FormatManifest(said), 0o644); err != nil {
		return 0, err
	}
	_, _, report, err := r.Load(ctx, filepath.Join(dir, manifestName))
	return report.Rows, err
}

func (c *Addition) writeGolden(ctx context.Context, m model.Model, path string) error {
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
	return errors.Join(models.WriteGolden(ctx, file, m, models.Columns(m.Info()), rows), file.Close())
}
