// Package wire passes tensors between the engine and the process with ONNX Runtime. Messages are
// those of the Open Inference Protocol with raw contents. Each follows its length in four bytes,
// little-endian.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/models/oip"
)

// FrameRest is the room in a frame for names and shapes.
const FrameRest = 1 << 20

// Graph describes the inputs and outputs of a model.
type Graph struct {
	Runtime         string // name and version of the runtime
	Inputs, Outputs []oip.Tensor
}

// Begin returns b with room for the length of a frame, which End sets.
func Begin(b []byte) []byte { return append(b[:0], 0, 0, 0, 0) }

// End sets the length of the frame b.
func End(b []byte) ([]byte, error) {
	if len(b)-4 > math.MaxUint32 {
		return nil, fmt.Errorf("a message of %d bytes", len(b))
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// AppendRequest appends a ModelInferRequest. Without output names it requests all outputs.
func AppendRequest(b []byte, inputs []oip.Tensor, outputs []string) []byte {
	return (&oip.Request{Inputs: inputs, Outputs: outputs}).Append(b)
}

// AppendAnswer appends a ModelInferResponse.
func AppendAnswer(b []byte, outputs []oip.Tensor) []byte {
	return (&oip.Response{Outputs: outputs}).Append(b)
}

// AppendError appends a ModelInferResponse with the reason why there is no answer.
func AppendError(b []byte, reason string) []byte { return (&oip.Response{Error: reason}).Append(b) }

// AppendGraph appends a ModelMetadataResponse.
func AppendGraph(b []byte, g Graph) []byte {
	return (&oip.Metadata{Platform: g.Runtime, Inputs: g.Inputs, Outputs: g.Outputs}).Append(b)
}

// AppendNoGraph appends a ModelMetadataResponse with the reason why there is no model.
func AppendNoGraph(b []byte, reason string) []byte { return (&oip.Metadata{Error: reason}).Append(b) }

// Failure is an answer with an error message. The server continues to answer.
type Failure struct{ Reason string }

// Error returns the reason.
func (f *Failure) Error() string { return f.Reason }

// ParseRequest parses a ModelInferRequest. Each Raw is a slice of b.
func ParseRequest(b []byte) (inputs []oip.Tensor, outputs []string, err error) {
	r, err := oip.ParseRequest(b)
	if err == nil {
		err = check(r.Inputs)
	}
	return r.Inputs, r.Outputs, err
}

// ParseAnswer parses a ModelInferResponse. If it has an error message, the error is a *Failure.
// Each Raw is a slice of b.
func ParseAnswer(b []byte) ([]oip.Tensor, error) {
	r, err := oip.ParseResponse(b)
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, &Failure{r.Error}
	}
	return r.Outputs, check(r.Outputs)
}

// check returns nil if the elements of each tensor fit its shape.
func check(tensors []oip.Tensor) error {
	for i := range tensors {
		if err := tensors[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

// ParseGraph parses a ModelMetadataResponse. If it has an error message, the error is a *Failure.
func ParseGraph(b []byte) (Graph, error) {
	m, err := oip.ParseMetadata(b)
	if err == nil && m.Error != "" {
		err = &Failure{m.Error}
	}
	return Graph{Runtime: m.Platform, Inputs: m.Inputs, Outputs: m.Outputs}, err
}

// ReadFrame reads a frame into b, which it extends, and returns its message. If the message is
// longer than max, it reads only the length. The error is io.EOF if the input ends between frames.
func ReadFrame(r io.Reader, b []byte, max int64) ([]byte, error) {
	b = slices.Grow(b[:0], 4)[:4]
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > max {
		return nil, fmt.Errorf("a message of %d bytes, the limit is %d", n, max)
	}
	b = slices.Grow(b[:0], int(n))[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("a message of %d bytes: %w", n, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return b, nil
}
