// Package steps defines the kinds of steps of a pipeline file, one file for each kind, and lists
// them.
package steps

import "github.com/afterbay/afterbay/internal/lang"

// All returns the kinds of steps, in the order of the reference page.
func All() []*lang.StepKind {
	return []*lang.StepKind{
		&letKind, &featuresKind, &lookupKind, &scoreKind, &callKind, &routeKind, &groupKind, &joinKind, &eachKind, &chunkKind, &decideKind, &emitKind, &fetchKind,
	}
}
