package model

import (
	"context"
	"errors"
)

// ErrAway says that what runs a model cannot be reached, or is not ready: a later
// call may find it.
var ErrAway = errors.New("away")

// Connector is implemented by models outside of the process that are described
// before they are reached. Predict connects where Connect has not.
type Connector interface {
	Model

	// Connect compares the description with what the server says of its model.
	// The error is ErrAway where the server cannot say it yet. Call it before the
	// model is used, from one goroutine.
	Connect(ctx context.Context) error
}
