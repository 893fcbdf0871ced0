package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// TestAnotherValueInAFileChangesWhatItsFieldAffects gives each scalar of the pipelines of
// the repository another value, one after the other: the text of outputs and those of the
// state change as the field says.
func TestAnotherValueInAFileChangesWhatItsFieldAffects(t *testing.T) {
	changed := map[string]int{} // how often fields were
	texts := pipelineTexts(t)
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		same, ok := valuesOf(path, texts[path], -1)
		if !ok {
			continue // a part of a file, or shown to be refused
		}
		for at, of := range same.scalars {
			if of == "" || changed[of] >= 5 {
				continue
			}
			other, ok := valuesOf(path, texts[path], at)
			if !ok || other.field == nil {
				continue // another value is none of a file
			}
			affects := other.field.Affects
			changed[other.path]++
			if got := other.outputs != same.outputs; got != (affects >= spec.Outputs) {
				t.Errorf("%s, %s affects %v: with another value outputs change: %v\n%s", path, other.path, affects, got, other.outputs)
			}
			if got := other.state != same.state; got != (affects == spec.State) && !(got && readByName(other.path)) && !insideOnly(*other.field, affects) {
				t.Errorf("%s, %s affects %v: with another value the state changes: %v\n%s", path, other.path, affects, got, other.state)
			}
		}
	}
	if len(changed) < 100 {
		t.Errorf("only %d fields were changed: %q", len(changed), slices.Sorted(maps.Keys(changed)))
	}
}

// readByName reports whether state may read what a field says by its name.
func readByName(path string) bool {
	return slices.ContainsFunc([]string{".fields", ".let", ".decide", "constants", ".route.when"}, func(part string) bool { return strings.Contains("."+path, part) })
}

// values are what a file says.
type values struct {
	outputs, state string
	scalars        []string    // the fields they are values of, without names and places in lists
	path           string      // of the field that was changed
	field          *spec.About // nil where it has no other value
}

// valuesOf reads a text, with another value of one of its scalars. It reports whether the
// text is right.
func valuesOf(name, text string, change int) (v values, ok bool) {
	source := spec.NewSource(name, text)
	documents, found := spec.ReadDocuments(source, &spec.PipelineFiles)
	if len(found) > 0 {
		return v, false
	}
	for _, d := range documents {
		v.walk(d.Root, spec.MappingOf(builtin.Kinds().Fields()).Shape, "", nil, change)
		r := &spec.Reader{Source: source, Places: map[string]spec.Place{}, Again: builtin.Kinds().Again(), Lookup: func(string) (string, bool) { return "http://127.0.0.1:1", true }}
		var p lang.Pipeline
		spec.MappingOf(builtin.Kinds().Fields()).Read(r, d.Root, "", &p)
		if len(r.Errors) > 0 {
			return v, false
		}
		v.outputs += p.Canonical()
		v.state += stateOf(&p)
	}
	return v, true
}

// walk lists scalars, and changes one.
func (v *values) walk(n *spec.Node, s spec.Shape, path string, field *spec.About, change int) {
	switch n.Kind {
	case spec.Mapping:
		fields := fieldsOf(s)
		for _, e := range n.Entries {
			here, this := path, field
			if at := slices.IndexFunc(fields, func(f spec.About) bool { return f.Name == e.Key }); at >= 0 {
				here, this = spec.Join(path, e.Key), &fields[at]
			}
			v.walk(e.Value, within(s, fields, e.Key), here, this, change)
		}
	case spec.List:
		for _, item := range n.Items {
			v.walk(item, within(s, nil, ""), path, field, change)
		}
	case spec.Scalar:
		if field == nil || strings.Contains(n.Text, "${") {
			path = ""
		}
		if v.scalars = append(v.scalars, path); len(v.scalars)-1 == change {
			if other := changedNode(s, n); other != nil {
				v.path, v.field, n.Text = path, field, other.Text
			}
		}
	}
}

// stateOf returns the texts of all parts of the state.
func stateOf(p *lang.Pipeline) string {
	var all strings.Builder
	types := map[string]string{}
	for _, in := range append(slices.Clone(p.Inputs), p.Input) {
		all.WriteString(in.Meaning())
		if in.Dedupe != nil {
			all.WriteString(in.DedupeMeaning())
		}
		for _, f := range in.Fields {
			types[f.Name] = f.Type
		}
	}
	meaning := p.Meaning(func(name string) string { return types[name] })
	var each func([]lang.Step)
	each = func(list []lang.Step) {
		for i := range list {
			s := list[i]
			if keeper, ok := s.(lang.Keeper); ok {
				for _, part := range keeper.Keeps(meaning) {
					all.WriteString(part.Name + "\n" + part.Text)
				}
			}
			if call, ok := s.(*steps.Call); ok {
				all.WriteString(steps.FunctionPart(call.Go).Text)
			}
			for _, c := range s.Effect().Cases {
				each(c.Steps)
			}
		}
	}
	each(p.Steps)
	return all.String()
}
