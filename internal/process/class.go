package process

import (
	"errors"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// ClassOf returns the class of an error. That is its own class, or the class of its cause. Causes
// are findings about files, state that another file wrote, and a locked or damaged data directory.
func ClassOf(err error) failure.Class {
	var classed *failure.Error
	var file spec.Errors
	var pipeline spec.Problems
	var state *generation.ErrOtherState
	var damage *embedded.DamageError
	switch {
	case errors.As(err, &classed):
		return classed.Class
	case errors.As(err, &file), errors.As(err, &pipeline), errors.As(err, &state):
		return failure.OfFiles
	case errors.Is(err, embedded.ErrLocked):
		return failure.OfLock
	case errors.As(err, &damage):
		return failure.OfDirectory
	}
	return failure.OfRun
}
