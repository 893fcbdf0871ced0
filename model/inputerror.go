package model

import "fmt"

// InputError says why a model rejects the value of an input.
type InputError struct {
	Name  string // of the input; "" if the model has no names
	Index int    // of the input among Info.Inputs, if it has no name
	Given string // the caller's name for the input, if it differs; "" if unknown
	Err   error
}

// Error names the input and its value.
func (e *InputError) Error() string {
	input := fmt.Sprintf("input %q", e.Name)
	if e.Name == "" {
		input = fmt.Sprintf("input %d", e.Index)
	}
	if e.Given != "" && e.Given != e.Name {
		input += ", given " + e.Given
	}
	return fmt.Sprintf("%s: %v", input, e.Err)
}

// Unwrap returns the reason.
func (e *InputError) Unwrap() error { return e.Err }

// Column returns the first column of e's input, and whether that column is a text. Columns are
// counted among the numbers or among the texts of a row. It is -1 if the model has no such input.
func (i Info) Column(e *InputError) (column int, text bool) {
	numbers, texts := 0, 0
	for index, in := range i.Inputs {
		at := &numbers
		if in.Type != Number {
			at = &texts
		}
		if e.Name != "" && in.Name == e.Name || e.Name == "" && index == e.Index {
			return *at, in.Type != Number
		}
		*at += in.Size()
	}
	return -1, false
}
