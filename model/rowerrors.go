package model

import "fmt"

// RowError says why a row of a call has no scores.
type RowError struct {
	Row int // of the call
	Err error
}

// RowErrors is an error of Predict about some rows, in the order of the rows. All other rows have
// their scores.
type RowErrors []RowError

// Error returns the error of the first row, and the number of others.
func (e RowErrors) Error() string {
	switch len(e) {
	case 0:
		return "no row failed"
	case 1:
		return e[0].Err.Error()
	}
	return fmt.Sprintf("%v, and %d more", e[0].Err, len(e)-1)
}

// Unwrap returns the errors of the rows.
func (e RowErrors) Unwrap() []error {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i].Err
	}
	return list
}
