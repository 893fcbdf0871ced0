package lang

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Profile names the profile of the rows that a model was trained with, as afterbay dataset --profile
// writes it.
type Profile struct {
	File   string // relative to the pipeline file
	Digest string // sha256 of the file, 64 hex digits
}

var profileFields = []spec.Field[Profile]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(p *Profile) *string { return &p.File }, spec.ReadPath), Example: "fraud-3.profile.json",
		Help: "the file that `afterbay dataset --profile` wrote; relative to the pipeline file"},
	{Name: "sha256", Affects: spec.Nothing, Required: true, Form: spec.Into(func(p *Profile) *string { return &p.Digest }, spec.ReadDigest),
		Example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Help: "sha256 of the file; the command prints it"},
}

// Scored is a score of events, with the features that it gives its model.
type Scored struct {
	Path     string
	Model    string
	Guard    *operator.Guard     // nil if the score is outside of all cases
	When     *expression.Program // nil scores all events
	Features []Feature
}

// Feature is an input of a model that a profile counts: a number, or a text.
type Feature struct {
	Name string
	Given
}

// Numeric reports whether the feature is a number, and not a text.
func (f *Feature) Numeric() bool { return f.Slot.Type.Kind != value.String }

// Features returns the features among the values of an input. name is that of the input in the pipeline file, or "" if
// it has none: then each feature has the name or the text of its value.
func Features(name string, list []Given) (features []Feature) {
	for i, g := range list {
		of := g.Slot.Name
		if name != "" {
			if of = name; len(list) > 1 {
				of = fmt.Sprintf("%s[%d]", name, i)
			}
		}
		if kind := g.Slot.Type.Kind; kind <= value.Number || kind == value.String {
			features = append(features, Feature{of, g})
		}
	}
	return features
}

// AddScored adds a score to those of the pipeline, unless it scores the elements of lists.
func (s *Scope) AddScored(scored Scored) {
	if !s.Names.elements {
		scored.Guard = s.Guards.Innermost()
		s.Scored = append(s.Scored, scored)
	}
}

// CheckProfile compares the features that the score at path gives a model with those in its profile.
func (r *Resources) CheckProfile(path, model string, features []Feature) {
	reference := r.Profiles[model]
	if reference == nil {
		return
	}
	const hint = "write it again with afterbay dataset --profile, or give the model the features that it was trained with"
	at := "models." + model + ".profile.file"
	known := map[string]bool{}
	for _, f := range features {
		known[f.Name] = true
		switch p := reference.Features[f.Name]; {
		case p == nil:
			r.Fail(at, "the profile has no feature %q, which %s gives the model", f.Name, path)
			r.Hint(hint)
		case p.Numeric() != f.Numeric():
			r.Fail(at, "feature %q is a %s in the profile, and a %s in %s", f.Name, kindOf(p.Numeric()), kindOf(f.Numeric()), path)
			r.Hint(hint)
		}
	}
	var extra []string
	for _, name := range slices.Sorted(maps.Keys(reference.Features)) {
		if !known[name] {
			extra = append(extra, name)
		}
	}
	if extra != nil {
		r.Fail(at, "%s does not give the model these features of the profile: %s", path, shorten(extra))
		r.Hint(hint)
	}
}

// shorten lists at most ten names.
func shorten(names []string) string {
	if n := len(names); n > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:10], ", "), n-10)
	}
	return strings.Join(names, ", ")
}

func kindOf(numeric bool) string {
	if numeric {
		return "number"
	}
	return "text"
}
