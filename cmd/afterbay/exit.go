package main

import (
	"errors"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // something went wrong while the command ran
	exitUsage   = 2 // the command line is not valid
	exitInvalid = 3 // a pipeline file or model is not valid
	exitLocked  = 4 // another process has the data directory, and does not answer
	exitDamaged = 5 // the data directory is damaged, or cannot be read or written
	exitEngine  = 6 // the brokers of --engine or the server of a model cannot be reached, or refuse
)

const description = `Streaming inference: events in a log become decisions in a log, exactly once.

Exit codes: 0 done; 1 it went wrong while running; 2 wrong command line; 3 invalid pipeline file or model; 4 the data directory is held by another process that does not answer; 5 the data directory is damaged or cannot be written; 6 the brokers of --engine or the server of a model cannot be reached, or refuse.`

// exitError is an error with its exit code.
type exitError struct {
	code int
	error
}

// Unwrap returns the error alone.
func (e *exitError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return failure.Usage(format, args...) }

// codes are the exit codes of the classes of errors.
var codes = map[failure.Class]int{
	failure.OfRun:         exitFailure,
	failure.OfUsage:       exitUsage,
	failure.OfFiles:       exitInvalid,
	failure.OfLock:        exitLocked,
	failure.OfDirectory:   exitDamaged,
	failure.OfConnections: exitEngine,
}

// endedWith gives an error the class of the exit code of a process of this program.
func endedWith(code int, err error) error {
	for class, of := range codes {
		if of == code {
			return failure.As(class, err)
		}
	}
	return err
}

// exitCode returns the exit code that an error of a command stands for.
func exitCode(err error) int {
	var coded *exitError
	var classed *failure.Error
	var file config.Errors
	var pipeline afterbay.Errors
	var state *generation.ErrOtherState
	var damage *embedded.DamageError
	switch {
	case err == nil, errors.Is(err, errHelped):
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &classed):
		return codes[classed.Class]
	case errors.As(err, &file), errors.As(err, &pipeline), errors.As(err, &state):
		return exitInvalid
	case errors.Is(err, embedded.ErrLocked):
		return exitLocked
	case errors.As(err, &damage):
		return exitDamaged
	}
	return exitFailure
}
