package model

import (
	"context"
	"errors"
)

// ErrAway reports that the server or program of the model cannot be reached or is not ready. A
// later call may succeed.
var ErrAway = errors.New("the server or program of the model cannot be reached")

// Connector is implemented by models outside the process that are described before they are
// reached. Predict connects if Connect has not.
type Connector interface {
	Model

	// Connect compares the description with the model that the server reports. The error is ErrAway
	// if the server cannot answer yet. Call it before the model is used, from one goroutine.
	Connect(ctx context.Context) error
}

// Readier is implemented by models outside the process that can report whether they are ready to
// answer.
type Readier interface {
	// Ready returns nil if the model is ready, else the reason. It scores no row, so it is cheap.
	// It is safe for concurrent use.
	Ready(ctx context.Context) error
}
