package compile

import (
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// openInline opens a model that the pipeline file describes, as if it had a manifest. Its inputs
// are those of the first score that uses it.
func (o *opening) openInline(m *lang.Model, inputs []model.ManifestInput) (lang.Loaded, bool) {
	manifest := &model.Manifest{Name: m.Name, Version: m.Version, Inputs: inputs}
	for _, f := range m.Outputs {
		manifest.Outputs = append(manifest.Outputs, inlineOutput(f))
	}
	call := m.Call
	if call == nil {
		call = &lang.Calling{}
	}
	where := "models." + m.Name + ".url"
	if m.URL == "" {
		where = "models." + m.Name + ".process"
	}
	manifest.Dir = m.Dir
	o.inlineConfig(where, manifest, model.Inline{URL: m.URL, Command: m.Process, Version: m.Version, Timeout: o.Timeout(call), Calls: call.Concurrency})
	if len(o.Errs) > 0 {
		return lang.Loaded{}, false
	}
	loaded, err := o.openManifest(where, manifest)
	var found models.Errors
	switch {
	case err == nil:
	case errors.As(err, &found):
		for _, e := range found {
			o.Errs = append(o.Errs, &spec.Problem{Path: where, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
		return lang.Loaded{}, false
	default:
		o.Fail(where, "%v", err)
		return lang.Loaded{}, false
	}
	return o.loaded("models."+m.Name, m, o.types[m.Name], loaded)
}

// inlineConfig sets the kind of a model: the newest kind that accepts what the pipeline says.
func (o *opening) inlineConfig(where string, manifest *model.Manifest, said model.Inline) {
	for _, kind := range slices.Backward(o.modelKinds()) {
		inliner, ok := kind.New().(model.Inliner)
		if !ok {
			continue
		}
		config, taken, err := inliner.Inline(said)
		switch {
		case err != nil:
			o.Fail(where, "%v", err)
			return
		case taken:
			manifest.Kind, manifest.Config = kind.Name, config
			return
		}
	}
	o.Fail(where, "no kind of model accepts it: write a manifest")
}

func inlineOutput(f lang.Field) model.Output {
	out := model.Output{Name: f.Name, Size: 1}
	switch t, _ := value.ParseType(f.Type); t.Kind {
	case value.String:
		out.Type = model.String
	case value.Bytes:
		out.Type = model.Bytes
	case value.Vector:
		out.Size = t.Size
	}
	return out
}
