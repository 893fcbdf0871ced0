// Package registry opens models from files and manifests, and stores versions of models in folders.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/sys/replace"
	"github.com/afterbay/afterbay/model"
)

const (
	manifestName = "model.yaml"
	goldenName   = "golden.csv"
	goldenRows   = 64   // generated rows, or rows taken from --rows
	sweepRows    = 1024 // rows in the largest measured call
)

const modelHelp = "a model of trees, XGBoost .json or .ubj, LightGBM .txt, CatBoost .json or .onnx, a text model, or the manifest of one, .yaml"

// Registry opens models, and stores versions of models in folders.
type Registry struct {
	Kinds   config.Kinds
	Opening models.Opening
	Logger  *slog.Logger
	Own     func(model.Model) // takes ownership of each open model, to close it
}

// Load loads a model from its file, or loads and verifies the model of a manifest. The returned
// manifest is nil if the model has none.
func (r *Registry) Load(ctx context.Context, path string) (model.Model, *config.Manifest, models.Report, error) {
	return r.loadBy(ctx, path, r.verified)
}

// loadBy loads a model. For the model of a manifest it calls open.
func (r *Registry) loadBy(ctx context.Context, path string, open func(context.Context, *model.Manifest) (model.Model, models.Report, error)) (model.Model, *config.Manifest, models.Report, error) {
	if !lang.NamesManifest(path) {
		m, err := models.File(path)
		var graph *models.GraphError
		if errors.As(err, &graph) {
			return nil, nil, models.Report{}, withManifest(path, graph, err)
		}
		if err != nil {
			return nil, nil, models.Report{}, failure.As(failure.OfFiles, fmt.Errorf("%w: name %s", err, modelHelp))
		}
		return m, nil, models.Report{}, nil
	}
	manifest, err := config.LoadManifest(path, r.Kinds)
	if err != nil {
		return nil, nil, models.Report{}, failure.As(failure.OfFiles, err)
	}
	m, report, err := open(ctx, &manifest.Manifest)
	if err != nil {
		err = manifest.Explain(err)
		return nil, nil, report, failure.As(failure.FilesOrConnections(err), err)
	}
	return m, manifest, report, nil
}

// verified loads and verifies the model of a manifest of any kind. Its processes outside this one
// end with the command.
func (r *Registry) verified(ctx context.Context, manifest *model.Manifest) (model.Model, models.Report, error) {
	m, report, err := models.Verified(ctx, manifest, r.Opening)
	if err == nil {
		r.Own(m)
	}
	return m, report, err
}

// Inspect returns a model for display. It runs no program.
func (r *Registry) Inspect(ctx context.Context, path string) (model.Model, *config.Manifest, models.Report, error) {
	return r.loadBy(ctx, path, r.inspected)
}

// inspected returns the model of a manifest for display. It runs no program.
func (r *Registry) inspected(ctx context.Context, manifest *model.Manifest) (model.Model, models.Report, error) {
	if _, runs := manifest.Config.(model.Program); !runs {
		return r.verified(ctx, manifest)
	}
	m, err := models.Declared(ctx, manifest, r.Opening)
	return m, models.Report{}, err
}

// Sweep measures calls of a model by size. The rows come from file; for "" they come from the
// golden vectors of the manifest, or are generated. The returned manifest is nil if the model has
// none.
func (r *Registry) Sweep(ctx context.Context, path, file string, duration time.Duration) ([]models.Cost, model.Policy, *config.Manifest, error) {
	m, manifest, err := r.widest(ctx, path)
	if err != nil {
		return nil, model.Policy{}, nil, err
	}
	m = models.First(m)
	limit, from := 0, file
	if manifest != nil {
		limit, from = manifest.Limits.Rows, cmp.Or(file, manifest.Golden)
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
	costs, policy, err := models.Sweep(ctx, m, rows, limit, duration)
	return costs, policy, manifest, err
}

// widest loads a model. It makes an ONNX model compute any number of rows in a call, unless this
// changes its scores by too much.
func (r *Registry) widest(ctx context.Context, path string) (model.Model, *config.Manifest, error) {
	if lang.NamesManifest(path) {
		if wide, err := config.LoadManifest(path, r.Kinds); err == nil && wide.Kind == "onnx" {
			wide.Batch.Size = cmp.Or(wide.Limits.Rows, sweepRows)
			if m, _, err := r.verified(ctx, &wide.Manifest); err == nil {
				return m, wide, nil
			}
		}
	}
	m, manifest, _, err := r.Load(ctx, path)
	return m, manifest, err
}

// WritePolicy writes a policy into a manifest.
func (r *Registry) WritePolicy(path string, policy model.Policy) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = lang.WithPolicy(text, policy)
	if _, err := lang.ParseManifest(path, text, r.Kinds); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	return replace.WriteFile(path, text, 0o666)
}

// List returns the manifests in a folder, sorted by name and version. It passes the error of an
// invalid manifest to wrong.
func (r *Registry) List(dir string, wrong func(error)) ([]*config.Manifest, error) {
	var found []*config.Manifest
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != manifestName {
			return err
		}
		m, err := config.LoadManifest(path, r.Kinds)
		if err != nil {
			wrong(err)
			return nil
		}
		found = append(found, m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: name a folder that `afterbay model add` writes to", err)
	}
	slices.SortStableFunc(found, func(x, y *config.Manifest) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Version, y.Version))
	})
	return found, nil
}
