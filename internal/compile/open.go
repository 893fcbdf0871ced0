package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe/profile"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Options say how to compile a pipeline. They do not change its results.
type Options struct {
	Endpoints  *control.Endpoints // services that pipelines share; nil shares nothing
	Rows       bool               // end before the first score of a model that cannot be loaded, and need no emit
	Reach      bool               // fail if a process or server that runs a model is missing
	NoPrograms bool               // run no program that a manifest names
	Announce   func(text string)  // is called with each such program before it runs; may be nil
	Starting   context.Context    // ends the start of models; nil never does
	ModelKinds []model.Kind       // kinds of models that manifests may name, in addition to those of the pipeline

	// Instead returns the model that an operator asks instead of its own; nil keeps its own.
	Instead func(how operator.Batch) model.Model

	watch func(pass Pass, reads []any, run func()) // for tests: calls run for each pass; nil only runs it
}

// opened holds what a pipeline opens outside its file: models, rows of lookups, content.
type opened struct {
	*lang.Resources
	named  []NamedModel
	pinned []string // name@version and digest of each model

	formats  map[string]format  // formats of inputs, by topic; other inputs are JSON
	registry *registry.Registry // registry of some of them; may be nil

	encoders map[int]encode.Encoder  // encoders of emits, by index; emits without one write JSON
	schemas  map[string]string       // digests of the schemas of outputs, by topic
	shown    map[string]outputFormat // by topic

	registrations []registration

	instead func(how operator.Batch) model.Model // returns a model to ask instead of the operator's own; may be nil
}

// opening is the state of the open pass. No other pass reads or calls anything outside.
type opening struct {
	opened
	options Options
	types   map[string][]value.Type // output types of models, as bind found them
}

// openModels opens the models that a pipeline declares. Bind reports errors in their declarations.
func openModels(p *lang.Pipeline, options Options) *opened {
	said := lang.NewScope(p)
	bindModels(said)
	o := &opening{options: options, types: said.Answers, opened: opened{instead: options.Instead, Resources: &lang.Resources{
		Findings: lang.NewFindings(), Pipeline: p, Endpoints: cmp.Or(options.Endpoints, &control.Endpoints{}), Budget: budgetOf(p, lang.NewFindings()),
		Models: map[string]lang.Loaded{}, Profiles: map[string]*profile.Reference{},
	}}}
	o.openFormats()
	for _, m := range p.Models {
		path := "models." + m.Name
		if !naming.Identifier(m.Name) {
			continue // bind reports it
		}
		o.Share(path, m.Call)
		if m.Profile != nil && !options.Rows { // rows are what a profile is made of
			o.openProfile(path+".profile", &m)
		}
		if m.Inline() { // opened later: its inputs are those of the first score that uses it
			o.whereModel(path, &m)
			continue
		}
		types, ok := o.types[m.Name]
		if loaded := o.loadModel(path, &m); loaded != nil && ok {
			if known, ok := o.loaded(path, &m, types, loaded); ok {
				o.Models[m.Name] = known
			}
		}
	}
	return &o.opened
}

// absent returns a function that reports whether a model is missing. It returns nil if a missing
// model is an error.
func (o *opened) absent() func(model string) bool {
	if len(o.Errs) > 0 {
		return nil
	}
	return func(name string) bool { _, there := o.Models[name]; return !there }
}

// openSteps opens what steps need in addition to the open models. It returns everything that is
// open, and the open steps. Findings about missing resources follow those of the steps.
func openSteps(b *bound, loaded *opened, options Options) (open *opened, nodes []lang.Node) {
	resources := *loaded.Resources
	resources.Findings = b.Findings.Plus(lang.NewFindings())
	resources.Models, resources.Opened = maps.Clone(loaded.Models), slices.Clone(loaded.Opened)
	resources.Pinned = map[string]string{}
	o := &opening{options: options, types: b.Answers, opened: opened{
		Resources: &resources, named: slices.Clone(loaded.named), pinned: slices.Clone(loaded.pinned), instead: loaded.instead, formats: loaded.formats, registry: loaded.registry,
	}}
	o.Inline = o.openInline
	o.openEncoders(b)
	o.openTables(b)
	for _, n := range b.Nodes {
		if s, ok := n.Bound.(lang.Opener); ok {
			if n.Bound = s.Open(o.Resources); n.Bound == nil {
				continue
			}
		}
		nodes = append(nodes, n)
	}
	return &o.opened, nodes
}

// Close closes the models, the fetcher and the registry.
func (o *opened) Close() {
	closeModels(o.Opened)
	if o.Fetcher != nil {
		o.Fetcher.Close()
	}
	if o.registry != nil {
		o.registry.Close()
	}
}

func closeModels(opened []model.Model) {
	for _, m := range opened {
		models.Close(m)
	}
}

// loaded records an open model if its outputs match the file.
func (o *opening) loaded(path string, m *lang.Model, types []value.Type, loaded model.Model) (known lang.Loaded, ok bool) {
	if !o.answersAs(path+".outputs", types, loaded.Info().WithoutState()) {
		return known, false
	}
	o.checkOutputs(path, m)
	known = lang.Loaded{Model: loaded, Name: fmt.Sprintf("%s@%d", m.Name, m.Version), Asks: generation.Hash(m.Canonical()), Calling: o.modelCalling(path, m, loaded)}
	o.named = append(o.named, NamedModel{m.Name, m.Version, m.Outputs, loaded})
	pinned := known.Name
	if digest := loaded.Info().Digest; digest != "" {
		pinned += " sha256:" + digest
	}
	o.pinned = append(o.pinned, pinned)
	return known, true
}

// whereModel checks that the file gives exactly one source for a model.
func (o *opening) whereModel(path string, m *lang.Model) bool {
	places := 0
	for _, there := range []bool{m.File != "", m.Go != "", m.URL != "", m.Process != nil} {
		if there {
			places++
		}
	}
	if places > 1 {
		o.Fail(path, "a model has only one of file, go, url and process")
	}
	return places <= 1
}

// checkOutputs reports output names in another order than in the manifest.
func (o *opening) checkOutputs(path string, m *lang.Model) {
	if m.Manifest == nil || len(m.Manifest.Outputs) != len(m.Outputs) {
		return
	}
	given, taken := make([]string, len(m.Outputs)), make([]string, len(m.Outputs))
	for i := range m.Outputs {
		given[i], taken[i] = m.Outputs[i].Name, m.Manifest.Outputs[i].Name
	}
	if !slices.Equal(given, taken) && slices.Equal(slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(taken))) {
		o.Fail(path+".outputs", "the manifest has them in another order: %s", strings.Join(taken, ", "))
	}
}

// loadModel returns a model, or nil after it reported an error.
func (o *opening) loadModel(path string, m *lang.Model) model.Model {
	if m.Trees != "" && m.File == "" {
		o.Fail(path+".trees", "trees applies only to a model with a file")
		o.Hint("remove it")
	}
	switch {
	case !o.whereModel(path, m):
		return nil
	case m.Go != "":
		bound := o.Pipeline.Code.Models[m.Go]
		if bound == nil {
			o.Fail(path+".go", "no model is bound to %q", m.Go)
			o.Hint("bind it in afterbay.Code.Models of a program that embeds the library; the afterbay command has none")
		}
		return bound
	case m.File == "":
		o.Fail(path+".file", "missing: name a model of trees, XGBoost .json or .ubj, LightGBM .txt, CatBoost .json or .onnx, or a text model")
		return nil
	}
	loaded, err := o.open(path, m)
	var found models.Errors
	switch {
	case err == nil:
		if open := loaded.Info().Ambiguous; open != "" {
			o.Warnings = append(o.Warnings, path+": "+open)
		}
		return loaded
	case o.options.Rows && errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &found):
		for _, e := range found {
			o.Errs = append(o.Errs, &spec.Problem{Path: path + ".manifest." + e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
	case m.Manifest == nil && lang.NamesManifest(m.File) && !errors.Is(err, fs.ErrNotExist):
		o.Fail(path+".file", "the manifest %s was not read", m.File)
		o.Hint("run afterbay lint on the manifest, and correct the errors that it reports")
	default:
		o.Fail(path+".file", "%v", err)
		if errors.Is(err, fs.ErrNotExist) {
			o.Hint("name a file that is there; its path is relative to the pipeline file")
		}
	}
	return nil
}

// open loads the file of a model, and verifies what its manifest says.
func (o *opening) open(path string, m *lang.Model) (model.Model, error) {
	if m.Manifest == nil {
		return models.FileWith(m.File, models.Options{Trees: m.Trees})
	}
	if m.Trees != "" {
		o.Fail(path+".trees", "the model has a manifest, and the manifest chooses the trees")
		o.Hint("write trees: " + m.Trees + " in the manifest")
	}
	if m.Version != m.Manifest.Version {
		o.Fail(path+".version", "%d, but its manifest says %d", m.Version, m.Manifest.Version)
		o.Hint("write the same version in both, and raise both when the file changes")
	}
	return o.openManifest(path, m.Manifest)
}

// openManifest opens the model of a manifest, which is closed with the pipeline.
func (o *opening) openManifest(path string, m *model.Manifest) (model.Model, error) {
	opening := models.Opening{Kinds: o.modelKinds(), Announce: o.options.Announce}
	if _, runs := models.ConfigOf(m, opening.Kinds).(model.Program); runs && o.options.NoPrograms {
		loaded, err := models.Declared(o.starting(), m, opening)
		if err != nil {
			return nil, err
		}
		o.Opened = append(o.Opened, loaded)
		o.Warnings = append(o.Warnings, path+": the model's program was not run: to run it, use `afterbay model verify` with its manifest, or `afterbay try`")
		return loaded, nil
	}
	open := models.Started
	if o.options.Reach {
		open = models.Verified
	}
	loaded, report, err := open(o.starting(), m, opening)
	if err != nil {
		return nil, err
	}
	o.Opened = append(o.Opened, loaded)
	if report.Away != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s: the model does not answer, and events that need it wait until it does: %v", path, report.Away))
	}
	return loaded, nil
}

func (o *opening) starting() context.Context {
	if o.options.Starting == nil {
		return context.Background()
	}
	return o.options.Starting
}

// modelKinds returns the kinds of models that manifests may name.
func (o *opening) modelKinds() []model.Kind {
	return slices.Concat(o.options.ModelKinds, o.Pipeline.Code.ModelKinds)
}
