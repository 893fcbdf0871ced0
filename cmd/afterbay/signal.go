package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// endWithin is how long a command may go on after the first signal that does not end
// in order: one that parses, verifies a model or waits for a server. Whatever it does is
// safe against a crash.
const endWithin = 3 * time.Second

// errEnded says that a command did not come to its end.
var errEnded = errors.New("stopped by a signal before it was done. Run the command again")

// untilSignal runs a command. After a signal it waits endWithin, unless the end is orderly.
func (a *app) untilSignal(command func() error) error {
	done := make(chan error, 1)
	go func() { done <- command() }() // where it is left alone the process ends
	ended := a.ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			if err != nil && a.ctx.Err() != nil && (onlyCanceled(err) || !a.orderly.Load()) {
				return a.signalled() // the signal caused its other errors
			}
			return err
		case <-ended:
			ended, late = nil, time.After(endWithin)
		case <-late:
			if late = nil; !a.orderly.Load() {
				return a.signalled()
			}
		}
	}
}

// signalled is the error of a command that a signal ended: none for one that runs
// until then.
func (a *app) signalled() error {
	if a.service.Load() {
		return nil
	}
	return errEnded
}

// onlyCanceled reports whether an error, and each error in it, says that a context was
// cancelled.
func onlyCanceled(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(many.Unwrap(), func(e error) bool { return !onlyCanceled(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyCanceled(inner)
	}
	return err == context.Canceled
}

// endable reads a stream until ctx is done, also where the stream has nothing to read.
type endable struct {
	ctx    context.Context
	stream io.Reader
	buffer []byte
	rest   []byte // read, and not taken yet
	err    error  // behind it
	read   chan taken
}

// taken is what a read brought.
type taken struct {
	bytes []byte
	err   error
}

func newEndable(ctx context.Context, stream io.Reader) *endable {
	return &endable{ctx: ctx, stream: stream, buffer: make([]byte, 64<<10), read: make(chan taken, 1)}
}

// Read implements io.Reader.
func (e *endable) Read(p []byte) (int, error) {
	if len(e.rest) == 0 && e.err == nil {
		go func() { // a stream that has nothing to read keeps it, to the end of the process
			n, err := e.stream.Read(e.buffer)
			e.read <- taken{e.buffer[:n], err}
		}()
		select {
		case t := <-e.read:
			e.rest, e.err = t.bytes, t.err
		case <-e.ctx.Done():
			e.err = e.ctx.Err()
		}
	}
	if len(e.rest) == 0 {
		return 0, e.err
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}
