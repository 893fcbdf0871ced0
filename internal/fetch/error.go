package fetch

import (
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// fault is why there is no content, and whose fault that is. One that is not there
// may come: it is of no fault here, which calling.BlameOf takes for the row's, and
// counts as an attempt of it.
type fault struct {
	blame model.Blame
	err   error
}

// Error says what happened.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns what happened.
func (f *fault) Unwrap() error { return f.err }

// Blame says whose fault it is.
func (f *fault) Blame() model.Blame { return f.blame }

// refuse is the error of what is never fetched.
func refuse(format string, args ...any) error {
	return &fault{model.BlameRows, fmt.Errorf(format, args...)}
}

// away is the error of a place that does not answer as it should: the row waits.
func away(format string, args ...any) error {
	return &fault{model.BlameSource, fmt.Errorf(format, args...)}
}

// missing is the error of what is not there, or not for us.
func missing(format string, args ...any) error { return fmt.Errorf(format, args...) }
