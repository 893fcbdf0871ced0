package lang

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
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
