package lang

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// manifestFields returns the fields of a manifest of any of the kinds. The error lists the invalid
// kinds.
func (k Kinds) manifestFields() ([]spec.Field[model.Manifest], error) {
	chosen, err := ModelKinds(k.Models)
	names, without := models.Told(), []string{}
	for _, kind := range k.Models {
		if names = append(names, kind.Name); kind.NoFile {
			without = append(without, "`"+kind.Name+"`")
		}
	}
	fields := slices.Concat(manifestFields, chosen)
	for i := range fields {
		switch f := &fields[i]; {
		case f.Name == "kind":
			f.Form = spec.Into(func(m *model.Manifest) *string { return &m.Kind }, spec.Choice[string](names...))
		case f.Name == "file" && len(without) > 0:
			f.Absent = "required, but with " + spec.Listed(without, "and")
		}
	}
	return fields, err
}

// modelKinds describes how a manifest holds the fields that only one kind of model has.
var modelKinds = Choice[model.Manifest, model.Config]{
	Of: "model", Others: manifestFields, Affects: spec.Outputs, More: "a model decides outputs, and keeps no state",
	At: func(m *model.Manifest) (*string, *model.Config) {
		name := &m.Kind
		if m.Kind != "" { // the kind was read: ownMapping compares it
			name = new(m.Kind)
		}
		return name, &m.Config
	},
}

// ModelKinds returns the fields of a manifest that belong to kinds. The error lists the invalid
// kinds.
func ModelKinds(kinds []model.Kind) ([]spec.Field[model.Manifest], error) {
	var all []KindIn[model.Config]
	var errs []error
	for _, k := range kinds {
		all = append(all, KindIn[model.Config]{k.Name, k.Help, k.Example, k.New})
		if slices.Contains(models.Told(), k.Name) {
			errs = append(errs, fmt.Errorf("model kind %q: files are told to be of that kind", k.Name))
		}
	}
	chosen, err := modelKinds.Fields(all)
	for i := range chosen {
		chosen[i].Absent = "as below"
		if slices.ContainsFunc(chosen[i].Shape.Words(), func(w spec.About) bool { return w.Required }) {
			chosen[i].Absent = "required with kind " + chosen[i].Name
		}
	}
	return chosen, errors.Join(append(errs, err)...)
}

// printManifest prints the fields that decide the scores of a manifest's model.
func printManifest(p *spec.Printer, path string, m *model.Manifest) {
	fields := manifestFields
	if m.Config != nil {
		table, err := spec.TableOf(m.Config, 0)
		if err != nil {
			panic(err) // Check accepted the kind
		}
		own := modelKinds.Reads(KindIn[model.Config]{Name: m.Kind}, table)
		own.Print = func(p *spec.Printer, path string, m *model.Manifest) { // a mapping with only defaults prints nothing
			config := any(m.Config)
			table.Print(p, path, &config)
		}
		fields = append(slices.Clip(fields), own)
	}
	spec.MappingOf(fields).Print(p, path, m)
}

// ownMapping reports each mapping in a manifest that belongs to another kind.
func (k Kinds) ownMapping(r *spec.Reader, root *spec.Node, m *model.Manifest) {
	_, said := r.Places["kind"]
	for _, e := range root.Entries {
		other := func(kind model.Kind) bool { return kind.Name == e.Key && (kind.Name != m.Kind || !said) }
		if slices.ContainsFunc(k.Models, other) {
			found := &spec.Problem{Path: e.Key, Message: "belongs to models of kind " + e.Key, Hint: "write kind: " + e.Key + ", or remove it"}
			r.Errors = append(r.Errors, r.Source.Explain(r.Places, found))
		}
	}
}

// noFile reports whether a manifest may have no file.
func (k Kinds) noFile(m *model.Manifest) bool {
	return m.Config != nil && slices.ContainsFunc(k.Models, func(kind model.Kind) bool { return kind.Name == m.Kind && kind.NoFile })
}
