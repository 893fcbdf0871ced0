package lang

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// Findings are the errors and warnings of a pipeline.
type Findings struct {
	Errs     spec.Problems
	Typed    map[*spec.Problem]Use // the errors about a name that has the wrong type, with the wanted type
	Warnings []string
}

// Fail adds an error at a path.
func (f *Findings) Fail(path string, format string, args ...any) {
	f.Errs = append(f.Errs, &spec.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Mistyped notes that the newest error is about a name with the wrong type.
func (f *Findings) Mistyped(name string, want value.Kind) {
	f.Typed[f.Errs[len(f.Errs)-1]] = Use{name, want}
}

// Hint sets the hint of the newest error: what the user can do about it.
func (f *Findings) Hint(hint string) { f.Errs[len(f.Errs)-1].Hint = hint }

// Use is a name, and the type that an expression needs it to have.
type Use struct {
	Name string
	Want value.Kind
}

// Found adds the errors that a kind found in a config.
func (f *Findings) Found(path, kind string, errs []error) {
	for _, err := range errs {
		if err != nil {
			f.Errs = append(f.Errs, ProblemOf(path, kind, err))
		}
	}
}

// Warned adds the warnings of a kind about a config.
func (f *Findings) Warned(path, kind string, errs []error) {
	for _, err := range errs {
		if err != nil {
			e := ProblemOf(path, kind, err)
			f.Warnings = append(f.Warnings, e.Path+": "+e.Message)
		}
	}
}

// ProblemOf converts the error of a kind into a problem with the path of the faulty field.
func ProblemOf(path, kind string, err error) *spec.Problem {
	e := &spec.Problem{Path: path + "." + kind, Message: err.Error(), Err: err}
	if mistake, ok := errors.AsType[*stream.Mistake](err); ok {
		e.Column, e.Hint = mistake.Column, mistake.Hint
		switch {
		case mistake.Beside:
			e.Path = path + "." + mistake.Field
		case mistake.Field != "":
			e.Path += "." + mistake.Field
		}
	}
	return e
}

// NewFindings returns empty findings.
func NewFindings() *Findings { return &Findings{Typed: map[*spec.Problem]Use{}} }

// Plus returns the findings of f followed by those of o. It changes neither.
func (f *Findings) Plus(o *Findings) *Findings {
	both := &Findings{Errs: slices.Concat(f.Errs, o.Errs), Typed: maps.Clone(f.Typed), Warnings: slices.Concat(f.Warnings, o.Warnings)}
	maps.Copy(both.Typed, o.Typed)
	return both
}
