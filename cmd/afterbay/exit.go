package main

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/process"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // an error while the command ran
	exitUsage   = 2 // the command line is not valid
	exitInvalid = 3 // a pipeline file or model is not valid
	exitLocked  = 4 // another process holds the data directory and does not respond
	exitDamaged = 5 // the data directory is damaged or cannot be read or written
	exitEngine  = 6 // the brokers of --engine or a model server cannot be reached or refuse requests
)

const description = `Streaming inference: events in a log become decisions in a log, exactly once.

Exit codes: 0 success; 1 failure while running; 2 wrong command line; 3 invalid pipeline file or model; 4 another process holds the data directory and does not answer; 5 the data directory is damaged or cannot be written; 6 the brokers of --engine or the server of a model cannot be reached, or refuse.`

func usage(format string, args ...any) error { return failure.Usage(format, args...) }

// codes maps classes of errors to exit codes.
var codes = map[failure.Class]int{
	failure.OfRun:         exitFailure,
	failure.OfUsage:       exitUsage,
	failure.OfFiles:       exitInvalid,
	failure.OfLock:        exitLocked,
	failure.OfDirectory:   exitDamaged,
	failure.OfConnections: exitEngine,
}

// endedWith wraps an error in the class that belongs to the exit code of another process of this
// program.
func endedWith(code int, err error) error {
	for class, of := range codes {
		if of == code {
			return failure.As(class, err)
		}
	}
	return err
}

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	if err == nil || errors.Is(err, errHelped) {
		return exitOK
	}
	return codes[process.ClassOf(err)]
}

// misused adds the correct usage of the command to the error of an invalid command line.
func misused(err error) error {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		if node := wrong.Context.Selected(); node != nil {
			unknown, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "unknown flag --"), ",")
			if now := newFlag(strings.TrimPrefix(node.FullPath(), "afterbay "), unknown); now != "" {
				return usage("--%s is now --%s: see %s --help", unknown, now, node.FullPath())
			}
			return usage("%w: write afterbay %s; see %s --help", err, node.Summary(), node.FullPath())
		}
	}
	return usage("%w: see afterbay --help", err)
}
