package lang

import (
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// forms holds the readers of files for a set of kinds. They are made once for a pipeline file and
// its manifests.
type forms struct {
	kinds    Kinds
	pipeline []spec.Field[Pipeline]
	steps    spec.Form[Step]
	manifest []spec.Field[model.Manifest]
}

// forms returns the readers, or an error if kinds are invalid.
func (k Kinds) forms() (*forms, error) {
	sinks, ofSinks := k.sinkFields()
	steps, ofSteps := k.stepForm()
	logs, ofLogs := k.logKinds()
	manifest, ofModels := k.manifestFields()
	if err := errors.Join(ofSinks, ofSteps, ofLogs, ofModels); err != nil {
		return nil, err
	}
	engine := slices.IndexFunc(pipelineFieldsAbove, func(f spec.Field[Pipeline]) bool { return f.Name == "engine" })
	fields := slices.Concat(pipelineFieldsAbove, []spec.Field[Pipeline]{
		{Name: "steps", Affects: spec.State, Required: true, Form: spec.Into(func(p *Pipeline) *[]Step { return &p.Steps }, spec.ListOf(steps)),
			Example: "[emit: {topic: decisions, value: [customer, amount]}]", Help: "what happens to an event, in this order"},
	}, pipelineFieldsBelow, []spec.Field[Pipeline]{
		{Name: "sinks", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *[]Sink { return &p.Sinks }, spec.ListOf(spec.MappingOf(sinks))),
			Example: "[{from: freezes, http: {url: 'https://cards.example.com/freeze'}}]", Absent: "none",
			Help: "services that get the records of topics, from `afterbay run`, each record until the service took it"},
	})
	fields[engine].Form = spec.Into(func(p *Pipeline) *Engine { return &p.Engine }, k.engineForm(logs))
	return &forms{kinds: k, pipeline: fields, steps: steps, manifest: manifest}, nil
}

// made is forms for valid kinds. It panics if Check fails.
func (k Kinds) made() *forms {
	f, err := k.forms()
	if err != nil {
		panic(err)
	}
	return f
}

// Check returns an error if kinds are invalid.
func (k Kinds) Check() error {
	_, err := k.forms()
	return err
}

// Fields returns the fields of a pipeline that may name the kinds. It panics if Check fails.
func (k Kinds) Fields() []spec.Field[Pipeline] { return k.made().pipeline }

// StepForm returns the form that reads one step: a mapping with one field. It prints steps of any
// kind. It panics if Check fails.
func (k Kinds) StepForm() spec.Form[Step] { return k.made().steps }

// ManifestFields returns the fields of a manifest of any of the kinds. It panics if Check fails.
func (k Kinds) ManifestFields() []spec.Field[model.Manifest] { return k.made().manifest }

// Again returns the function that reads the steps inside a step. It panics if Check fails.
func (k Kinds) Again() func(r *spec.Reader, n *spec.Node, path string, into any) {
	return k.made().again()
}

func (f *forms) again() func(r *spec.Reader, n *spec.Node, path string, into any) {
	steps := spec.ListOf(f.steps)
	return func(r *spec.Reader, n *spec.Node, path string, into any) { steps.Read(r, n, path, into.(*[]Step)) }
}
