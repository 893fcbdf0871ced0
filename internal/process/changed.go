package process

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Changed loads the pipeline of a request. The caller closes its runner.
func (l *Loader) Changed(request reprocess.Request) (Pipeline, error) {
	file, err := lang.Load(request.File, l.Kinds)
	if err != nil {
		return Pipeline{}, failure.CannotRun(err)
	}
	at := -1
	var names []string
	for i, p := range file.Pipelines {
		if names = append(names, p.Name); request.Pipeline == p.Name || request.Pipeline == "" && len(file.Pipelines) == 1 {
			at = i
		}
	}
	if at < 0 {
		return Pipeline{}, failure.Usage("--pipeline %q: %s has %s", request.Pipeline, request.File, strings.Join(names, ", "))
	}
	p := file.Pipelines[at]
	p.Code = l.Code
	p.Models = slices.Clone(p.Models)
	for _, text := range request.Models {
		if err := replaceModel(&p, text, l.Kinds); err != nil {
			return Pipeline{}, err
		}
	}
	runner, err := pipeline.New(p, pipeline.Options{Members: Members(0), Logger: l.Logger, Reach: !request.DryRun, DryRun: request.DryRun, Announce: l.Announce, ModelKinds: l.Kinds.Models})
	if err != nil {
		return Pipeline{}, failure.CannotRun(file.Explain(at, err))
	}
	return Pipeline{request.File, file, at, runner}, nil
}

// replaceModel parses text. For NAME@VERSION=FILE it replaces a model of a pipeline. For
// NAME@VERSION it checks that the pipeline has the model.
func replaceModel(p *lang.Pipeline, text string, kinds lang.Kinds) error {
	pinned, file, replace := strings.Cut(text, "=")
	name, number, _ := strings.Cut(pinned, "@")
	version, err := strconv.Atoi(number)
	if err != nil || version < 1 {
		return failure.Usage("--model %s: use NAME@VERSION or NAME@VERSION=FILE, as in fraud@4=fraud-4.json", text)
	}
	for i := range p.Models {
		m := &p.Models[i]
		switch {
		case m.Name != name:
		case !replace && m.Version != version:
			return failure.Usage("--model %s: the file has version %d: change it there, or add =FILE", text, m.Version)
		case !replace:
			return nil
		default:
			m.Replace(file, version, nil)
			if lang.NamesManifest(file) {
				manifest, err := lang.LoadManifest(file, kinds)
				if err != nil {
					return failure.CannotRun(err)
				}
				m.Manifest = &manifest.Manifest
			}
			return nil
		}
	}
	return failure.Usage("--model %s: pipeline %s has no model of that name", text, p.Name)
}
