package lang

import (
	"errors"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// forms are how files that may name some kinds are read. They are made once for a file and
// the manifests that it names.
type forms struct {
	kinds    Kinds
	pipeline []spec.Field[Pipeline]
	steps    spec.Form[Step]
	manifest []spec.Field[model.Manifest]
}

// forms makes the forms. Its error is what is wrong with the kinds.
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

// made returns the forms of kinds that are right.
func (k Kinds) made() *forms {
	f, err := k.forms()
	if err != nil {
		panic(err)
	}
	return f
}

// Check returns what is wrong with the kinds.
func (k Kinds) Check() error {
	_, err := k.forms()
	return err
}

// Fields returns the fields of a pipeline that may name the kinds, for which Check has to
// return nil.
func (k Kinds) Fields() []spec.Field[Pipeline] { return k.made().pipeline }

// StepForm reads one step: a mapping of one word. It prints a step of any kinds. Check has
// to return nil.
func (k Kinds) StepForm() spec.Form[Step] { return k.made().steps }

// ManifestFields returns the fields of a manifest that may be of the kinds, for which
// Check has to return nil.
func (k Kinds) ManifestFields() []spec.Field[model.Manifest] { return k.made().manifest }

// Again returns what reads the steps below steps. Check has to return nil.
func (k Kinds) Again() func(r *spec.Reader, n *spec.Node, path string, into any) {
	return k.made().again()
}

// again returns what reads the steps below steps.
func (f *forms) again() func(r *spec.Reader, n *spec.Node, path string, into any) {
	steps := spec.ListOf(f.steps)
	return func(r *spec.Reader, n *spec.Node, path string, into any) { steps.Read(r, n, path, into.(*[]Step)) }
}
