package main

import (
	"fmt"
	"io"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/sys/term"
)

// openEvents opens a file of events, or standard input for "-". A format of "" is detected.
func (a *app) openEvents(path, format string) (*ingest.Source, error) {
	return ingest.Open(path, ingest.Format(format), func() io.Reader { return a.input("events", "a file of them") })
}

// input returns standard input. On a terminal it first prints which input the command waits for.
func (a *app) input(what, instead string) io.Reader {
	if term.Is(a.stdin) {
		fmt.Fprintf(a.stderr, "reading %s from the terminal until Ctrl-D; press Ctrl-C to end, and give %s instead\n", what, instead)
	}
	return newEndable(a.ctx, a.stdin)
}
