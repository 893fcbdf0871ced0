package spec

import (
	"fmt"
	"strings"
)

// Problem is one error in a pipeline.
type Problem struct {
	Path    string // path in the pipeline: "steps[1].features.spend.value"
	Column  int    // in the expression at Path, from 1; 0 if the path has no expression
	Message string // what is wrong
	Hint    string // what to do next; may be empty
	Err     error  // the cause, or nil
}

// Error returns path, message and hint.
func (e *Problem) Error() string {
	text := e.Path + ": " + e.Message
	if e.Column > 0 {
		text = fmt.Sprintf("%s: column %d: %s", e.Path, e.Column, e.Message)
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Problem) Unwrap() error { return e.Err }

// Problems lists all errors in a pipeline, in the order of the file.
type Problems []*Problem

// Error returns the texts of the errors, one on each line.
func (es Problems) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}
