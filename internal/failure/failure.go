// Package failure gives errors of commands a class. The program chooses its exit code by the class.
package failure

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Class is the kind of an error. The zero value is an error while a command ran.
type Class int

// The classes.
const (
	OfRun         Class = iota
	OfUsage             // the command line is not valid
	OfFiles             // a pipeline file or model is not valid
	OfLock              // another process holds the data directory, and does not answer
	OfDirectory         // a data directory is damaged, or cannot be read or written
	OfConnections       // the brokers of an engine or the server of a model cannot be reached, or reject the request
)

// Error is an error with its class.
type Error struct {
	Class Class
	Err   error
}

// Error returns the text of the error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its class.
func (e *Error) Unwrap() error { return e.Err }

// As adds a class to an error.
func As(class Class, err error) error { return &Error{class, err} }

// Usage returns an error of the command line.
func Usage(format string, args ...any) error { return &Error{OfUsage, fmt.Errorf(format, args...)} }

// Files returns an error of pipeline files or models.
func Files(err error) error { return &Error{OfFiles, err} }

// Locked returns the error of a data directory that another process holds.
func Locked(err error) error { return &Error{OfLock, err} }

// Directory returns an error of a data directory.
func Directory(err error) error { return &Error{OfDirectory, err} }

// Connections returns the error of brokers, or of the server of a model.
func Connections(err error) error { return &Error{OfConnections, err} }

// CannotRun returns the error of pipelines with findings. Each finding is on separate lines. If the
// only findings are that servers of models cannot be reached, the class is OfConnections.
func CannotRun(found ...error) error {
	return &Error{FilesOrConnections(found...), &invalid{errors.Join(found...)}}
}

// NotValid returns the error of pipelines that do not fit together, or with files that cannot be
// read.
func NotValid(found ...error) error { return Files(&invalid{errors.Join(found...)}) }

// FilesOrConnections returns the class of findings about files. It is OfConnections if the only
// findings are that servers of models cannot be reached, so that the caller may try again.
// Otherwise it is OfFiles.
func FilesOrConnections(found ...error) Class {
	for _, err := range found {
		var list spec.Errors
		if !errors.As(err, &list) {
			return OfFiles
		}
		for _, e := range list {
			if calling.BlameOf(e) != model.BlameWay {
				return OfFiles
			}
		}
	}
	return OfConnections
}

// invalid formats each finding about the files on separate lines.
type invalid struct{ error }

// Error returns all findings.
func (e *invalid) Error() string { return "the pipeline cannot run\n" + e.error.Error() }

// Unwrap returns the errors.
func (e *invalid) Unwrap() error { return e.error }
