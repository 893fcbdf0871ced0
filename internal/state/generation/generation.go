// Package generation numbers the generations of a pipeline. The number increases when the
// pipeline's logic changes. It is stored in the state of each partition and on outputs.
package generation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

var errDamaged = errors.New("the stored generation is damaged")

// Load returns the generation number of a partition, and what changed since it was stored. It
// returns an error if the meaning of the state changed, because a wrong guess would make every
// later score wrong.
func (f *Fingerprint) Load(p stream.Partition, view stream.View) (number uint64, change Change, err error) {
	data, err := view.Get([]byte{statekey.Generation})
	if err != nil {
		return 0, Same, err
	}
	if data == nil {
		return 1, NewOutputs, nil
	}
	number, n := binary.Uvarint(data)
	if n == 1 && number == 0 {
		return 0, Same, &ErrHandedOver{f.Pipeline, p, string(data[n:])}
	}
	if n <= 0 {
		return 0, Same, fmt.Errorf("generation of %v: %w", p, errDamaged)
	}
	stored, err := parseFingerprint(data[n:])
	if err != nil {
		return 0, Same, fmt.Errorf("generation of pipeline %q in %v: %w", f.Pipeline, p, err)
	}
	if what := f.differs(&stored); what != "" {
		return 0, Same, &ErrOtherState{Pipeline: f.Pipeline, Partition: p, What: what}
	}
	switch {
	case stored.Outputs != f.Outputs:
		return number + 1, NewOutputs, nil
	case stored.Order != f.Order:
		return number, NewOrder, nil
	}
	return number, Same, nil
}

// Stored returns the number of the generation that wrote the state of a partition, and its
// fingerprint of outputs. The number is 0 if none is stored.
func Stored(view stream.View) (number uint64, outputs string, err error) {
	data, err := view.Get([]byte{statekey.Generation})
	if err != nil || data == nil {
		return 0, "", err
	}
	return ParseStored(data)
}

// ParseStored decodes a stored generation. A generation that was handed over has no fingerprint and
// the number 0.
func ParseStored(data []byte) (number uint64, outputs string, err error) {
	number, n := binary.Uvarint(data)
	switch {
	case n == 1 && number == 0:
		return 0, "", nil
	case n <= 0:
		return 0, "", errDamaged
	}
	f, err := parseFingerprint(data[n:])
	if f.Outputs == none {
		f.Outputs = ""
	}
	return number, f.Outputs, err
}

// Append encodes a generation for the state.
func (f *Fingerprint) Append(dst []byte, number uint64) []byte {
	return f.append(binary.AppendUvarint(dst, number))
}

// seed returns the initial value for a generation with number n.
func seed(n uint64) []byte { return append(binary.AppendUvarint(nil, n-1), noState...) }

// errGone means that the state of a generation cannot be copied because the generation was handed
// over.
var errGone = errors.New("that generation was handed over to a newer one, which has other state: name the newer one, or live")

// reseed is seed for a state that was copied. stored is the value of the other generation and
// describes the state's parts.
func reseed(stored []byte, n uint64) ([]byte, error) {
	number, size := binary.Uvarint(stored)
	if size == 1 && number == 0 {
		return nil, errGone
	}
	if size <= 0 {
		return nil, errDamaged
	}
	dst := binary.AppendUvarint(nil, n-1)
	if bytes.Equal(stored[size:], []byte(noState)) {
		return append(dst, noState...), nil
	}
	f, err := parseFingerprint(stored[size:])
	f.Outputs = none
	return f.append(dst), err
}

// handedOver returns the value that replaces a generation when another group has the partition.
func handedOver(to string) []byte { return append([]byte{0}, to...) }

// ErrHandedOver means that a partition belongs to a newer generation.
type ErrHandedOver struct {
	Pipeline  string
	Partition stream.Partition
	To        string // group of that generation
}

// Error says what to do next.
func (e *ErrHandedOver) Error() string {
	return fmt.Sprintf("%v was handed over to %s, a newer generation of pipeline %q: start afterbay run with the file of that generation", e.Partition, e.To, e.Pipeline)
}

// ErrOtherState means that a pipeline with a different file wrote the state of a partition.
type ErrOtherState struct {
	Pipeline  string
	Partition stream.Partition
	What      string // the difference, for example `another feature "past"`
}

// Error says what to do next.
func (e *ErrOtherState) Error() string {
	return fmt.Sprintf("the state of pipeline %q beside %v was written with %s: undo the change, or give the pipeline another name, which starts from the beginning of its input with empty state", e.Pipeline, e.Partition, e.What)
}
