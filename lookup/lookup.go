// Package lookup defines the contract of sources of rows: services outside the log that return a
// row for a key.
package lookup

import (
	"context"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// Source returns rows for keys. It is safe for concurrent use.
type Source interface {
	// Rows returns the row of each key, a JSON object, in the order of the keys; nil if a key has
	// no row. An error applies to all keys: it is an *Error, or the error of ctx.
	Rows(ctx context.Context, keys []string) ([][]byte, error)
}

// Error is the failure of a source.
type Error struct {
	// Refused means that the source works but rejects these keys. Other keys may succeed.
	Refused bool
	// Failed means that the source answered, but not with rows. The keys may be the cause. If
	// neither Refused nor Failed is set, the source is down for all keys.
	Failed bool
	Err    error
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Blame returns the cause of the error: the keys if the source refused them, the source if it
// failed, and otherwise the way to the source.
func (e *Error) Blame() model.Blame {
	switch {
	case e.Refused:
		return model.BlameRows
	case e.Failed:
		return model.BlameModel
	}
	return model.BlameWay
}

// Mistake is an error of a Config or a Source that names the wrong field. Findings show it with
// file, line and column.
type Mistake = stream.Mistake
