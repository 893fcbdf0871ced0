package models

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// unverified is a model outside the process that could not be reached when it was loaded. It scores
// its golden vectors before it scores the first row.
type unverified struct {
	model.Model
	manifest *model.Manifest
	verified atomic.Bool
	turn     chan struct{} // held while the model is verified
	ctx      context.Context
	end      context.CancelFunc
}

func newUnverified(m *model.Manifest, loaded model.Model) *unverified {
	u := &unverified{Model: loaded, manifest: m, turn: make(chan struct{}, 1)}
	u.ctx, u.end = context.WithCancel(context.Background())
	return u
}

// unverifiedError says that a model is not in use yet. It does not blame a row.
type unverifiedError struct{ error }

// Blame implements the method that calling.BlameOf calls.
func (unverifiedError) Blame() model.Blame { return model.BlameWay }

// Unwrap returns the wrapped error.
func (e unverifiedError) Unwrap() error { return e.error }

// Unwrap returns the wrapped model.
func (u *unverified) Unwrap() model.Model { return u.Model }

// Predict implements model.Model.
func (u *unverified) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return u.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer.
func (u *unverified) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	if !u.verified.Load() {
		if err := u.verify(ctx); err != nil {
			return err
		}
	}
	return calling.Ask(ctx, u.Model, rows, scores, texts)
}

// verify scores the golden vectors, without a timeout. A call that times out meanwhile fails; the
// next call finds the model verified.
func (u *unverified) verify(ctx context.Context) error {
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		return unverifiedError{fmt.Errorf("its golden vectors are being scored: %w", ctx.Err())}
	}
	done := make(chan error, 1)
	go func() { // runs until Close
		defer func() { <-u.turn }()
		if u.verified.Load() {
			done <- nil
			return
		}
		v := &verifier{manifest: u.manifest, outside: true}
		v.golden(u.ctx, First(u.Model))
		u.verified.Store(v.errs == nil)
		done <- v.err()
	}()
	select {
	case err := <-done:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, model.ErrAway):
			return unverifiedError{fmt.Errorf("score its golden vectors: %w", err)}
		}
		return unverifiedError{fmt.Errorf("it is not the model of its manifest: %w", err)}
	case <-ctx.Done():
		return unverifiedError{fmt.Errorf("its golden vectors are being scored: %w", ctx.Err())}
	}
}

// Close implements io.Closer.
func (u *unverified) Close() error {
	u.end()
	u.turn <- struct{}{} // waits for a running verification
	Close(u.Model)
	return nil
}
