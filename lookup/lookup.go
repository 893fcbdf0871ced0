// Package lookup is the contract of sources of rows: where the rows of keys are that the log does not hold.
package lookup

import (
	"context"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// Source is where rows are. It is safe for concurrent use.
type Source interface {
	// Rows returns the row of each key, a JSON object, in their order; nil where
	// there is none. An error is about all of the keys: an *Error, or that of ctx.
	Rows(ctx context.Context, keys []string) ([][]byte, error)
}

// Error is a source that did not answer as it should.
type Error struct {
	// Refused is set where the source works, but does not answer for these keys.
	// Others may fare better.
	Refused bool
	// Failed is set where the source answered, but not with rows: it may be because
	// of the keys. If neither is set, the source is down for all keys.
	Failed bool
	Err    error
}

// Error says what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// Blame says whose fault it is: that of the keys where they are refused.
func (e *Error) Blame() model.Blame {
	switch {
	case e.Refused:
		return model.BlameRows
	case e.Failed:
		return model.BlameModel
	}
	return model.BlameWay
}

// Mistake is an error of a Config or a Source that names the field which is wrong. Findings show it
// with file, line and column.
type Mistake = stream.Mistake
