package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// endWithin is how long a command may continue after the first signal if it does not end in order.
// Examples are commands that parse, verify a model or wait for a server. Everything that they do is
// safe against a crash.
const endWithin = 3 * time.Second

// errEnded is the error of a command that a signal ended before it was done.
var errEnded = errors.New("stopped by a signal before it was done. Run the command again")

// untilSignal runs a command. After a signal it waits at most endWithin, or without limit if the
// command ends in order.
func (a *app) untilSignal(command func() error) error {
	done := make(chan error, 1)
	go func() { done <- command() }() // if untilSignal returns first, the process exits
	ended := a.ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			if err != nil && a.ctx.Err() != nil && (onlyCanceled(err) || !a.orderly.Load()) {
				return a.signalled() // the signal caused the other errors of the command
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

// signalled returns the error of a command that a signal ended. It is nil for a command that runs
// until a signal.
func (a *app) signalled() error {
	if a.service.Load() {
		return nil
	}
	return errEnded
}

// onlyCanceled reports whether an error, and each error that it wraps, is the cancellation of a
// context.
func onlyCanceled(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(many.Unwrap(), func(e error) bool { return !onlyCanceled(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyCanceled(inner)
	}
	return err == context.Canceled
}

// endable reads a stream until ctx is done, even while the stream has no data.
type endable struct {
	ctx    context.Context
	stream io.Reader
	buffer []byte
	rest   []byte // read from the stream but not yet returned
	err    error  // to return after rest
	read   chan taken
}

// taken is the result of one read.
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
		go func() { // if the stream has no data, this goroutine lasts until the process exits
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
