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

// Findings are what is wrong with a pipeline, and what will surprise.
type Findings struct {
	Errs     spec.Problems
	Typed    map[*spec.Problem]Use // of them, those of a name that has another type than is wanted
	Warnings []string
}

// Fail adds an error at a path.
func (f *Findings) Fail(path string, format string, args ...any) {
	f.Errs = append(f.Errs, &spec.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Mistyped notes that the error is one of a name that has another type than is wanted.
func (f *Findings) Mistyped(name string, want value.Kind) {
	f.Typed[f.Errs[len(f.Errs)-1]] = Use{name, want}
}

// Hint says what to do about the newest error.
func (f *Findings) Hint(hint string) { f.Errs[len(f.Errs)-1].Hint = hint }

// Use is a name, and the type that is wanted of it.
type Use struct {
	Name string
	Want value.Kind
}

// Found adds what a kind finds wrong with a config.
func (f *Findings) Found(path, kind string, errs []error) {
	for _, err := range errs {
		if err != nil {
			f.Errs = append(f.Errs, ProblemOf(path, kind, err))
		}
	}
}

// Warned adds what a kind warns of.
func (f *Findings) Warned(path, kind string, errs []error) {
	for _, err := range errs {
		if err != nil {
			e := ProblemOf(path, kind, err)
			f.Warnings = append(f.Warnings, e.Path+": "+e.Message)
		}
	}
}

// ProblemOf says where in a mapping that chooses a kind it is what is wrong with the config.
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

// NewFindings returns no findings.
func NewFindings() *Findings { return &Findings{Typed: map[*spec.Problem]Use{}} }

// Plus returns the findings of f and then those of o. It changes neither.
func (f *Findings) Plus(o *Findings) *Findings {
	both := &Findings{Errs: slices.Concat(f.Errs, o.Errs), Typed: maps.Clone(f.Typed), Warnings: slices.Concat(f.Warnings, o.Warnings)}
	maps.Copy(both.Typed, o.Typed)
	return both
}
