package fetch

import (
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// fault is an error with a blame. Content that is missing may appear later, so its error is not a
// fault: calling.BlameOf blames the row and counts an attempt.
type fault struct {
	blame model.Blame
	err   error
}

// Error returns the text of err.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns err.
func (f *fault) Unwrap() error { return f.err }

// Blame returns the cause of the error.
func (f *fault) Blame() model.Blame { return f.blame }

// refuse returns the error for content that must never be fetched.
func refuse(format string, args ...any) error {
	return &fault{model.BlameRows, fmt.Errorf(format, args...)}
}

// away returns the error for a place that does not answer correctly: the row waits.
func away(format string, args ...any) error {
	return &fault{model.BlameSource, fmt.Errorf(format, args...)}
}

// missing returns the error for content that does not exist or is not accessible.
func missing(format string, args ...any) error { return fmt.Errorf(format, args...) }
