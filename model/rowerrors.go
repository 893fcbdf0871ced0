package model

import "fmt"

// RowError is why a row of a call has no scores.
type RowError struct {
	Row int // of the call
	Err error
}

// RowErrors is an error of Predict about some of its rows, in their order: the
// others have their scores.
type RowErrors []RowError

// Error returns why the first row failed, and how many more did.
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
