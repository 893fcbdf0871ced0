package model

import "fmt"

// InputError is why a model refuses the value of an input.
type InputError struct {
	Name  string // of the input; "" where the model has no names
	Index int    // of the input among Info.Inputs, where it has no name
	Given string // what the caller gives for the input, where that has another name; "" is not known
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

// Column returns the first column of the input that e is about, among the numbers or
// the texts of a row; -1 where the model has no such input.
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
