package compile

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
)

// findings are what is wrong with a pipeline, and what will surprise.
type findings struct {
	errs     spec.Problems
	typed    map[*spec.Problem]use // of them, those of a name that has another type than is wanted
	warnings []string
}

func (f *findings) fail(path string, format string, args ...any) {
	f.errs = append(f.errs, &spec.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// mistyped notes that the error is one of a name that has another type than is wanted.
func (f *findings) mistyped(name string, want value.Kind) {
	f.typed[f.errs[len(f.errs)-1]] = use{name, want}
}

func (f *findings) hint(hint string) { f.errs[len(f.errs)-1].Hint = hint }
