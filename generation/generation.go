// Package generation says which meaning of a pipeline wrote the state beside a
// partition: a number that goes up with it, and is stamped on outputs.
package generation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Meaning is what a pipeline means: by Cells, what of stored state cannot be
// carried over; by Digest, what decides outputs.
type Meaning struct{ Pipeline, Cells, Digest string }

var errDamaged = errors.New("the stored generation is damaged")

// Load returns the number of the generation of a partition, and whether it is not
// stored yet. Cells of another meaning are refused: guessing would make every
// later score wrong.
func (m Meaning) Load(p stream.Partition, view stream.View) (number uint64, fresh bool, err error) {
	data, err := view.Get([]byte{statekey.Generation})
	if err != nil {
		return 0, false, err
	}
	if data == nil {
		return 1, true, nil
	}
	number, n := binary.Uvarint(data)
	if n == 1 && number == 0 {
		return 0, false, &ErrHandedOver{m.Pipeline, p, string(data[n:])}
	}
	cells, digest, ok := strings.Cut(string(data[max(n, 0):]), " ")
	if n <= 0 || !ok {
		return 0, false, fmt.Errorf("generation of %v: %w", p, errDamaged)
	}
	if cells != m.Cells && cells != anyCells {
		return 0, false, &ErrOtherFeatures{Pipeline: m.Pipeline, Partition: p}
	}
	if digest != m.Digest {
		return number + 1, true, nil
	}
	return number, false, nil
}

// Stored reads the number of the generation that wrote the state beside a partition,
// and its digest; 0 is that none is stored.
func Stored(view stream.View) (number uint64, digest string, err error) {
	data, err := view.Get([]byte{statekey.Generation})
	if err != nil || data == nil {
		return 0, "", err
	}
	return ParseStored(data)
}

// ParseStored reads a generation as it is stored. One that was handed over has no
// digest, and the number 0.
func ParseStored(data []byte) (number uint64, digest string, err error) {
	number, n := binary.Uvarint(data)
	if n == 1 && number == 0 {
		return 0, "", nil
	}
	_, digest, ok := strings.Cut(string(data[max(n, 0):]), " ")
	if n <= 0 || !ok {
		return 0, "", errDamaged
	}
	return number, digest, nil
}

// Append appends a generation as it is stored.
func (m Meaning) Append(dst []byte, number uint64) []byte {
	dst = binary.AppendUvarint(dst, number)
	return append(append(append(dst, m.Cells...), ' '), m.Digest...)
}

// anyCells stands for the cells of a state that has none yet.
const anyCells = "*"

// seed is what a generation's state begins with, so that its number is n.
func seed(n uint64) []byte { return append(binary.AppendUvarint(nil, n-1), anyCells+" "...) }

// errGone says that a state cannot be copied.
var errGone = errors.New("that generation was handed over and goes on in a newer one, whose state is another: name that one, or live")

// reseed is seed of a state that was copied: what is stored in it, of another
// generation, says what cells it has.
func reseed(stored []byte, n uint64) ([]byte, error) {
	number, digest, err := ParseStored(stored)
	if err == nil && number == 0 {
		err = errGone
	}
	if err != nil {
		return nil, err
	}
	_, size := binary.Uvarint(stored)
	cells := bytes.TrimSuffix(stored[size:], []byte(digest))
	return append(binary.AppendUvarint(nil, n-1), cells...), nil
}

// handedOver is what is stored instead of a generation when another group has the
// partition.
func handedOver(to string) []byte { return append([]byte{0}, to...) }

// ErrHandedOver says that a partition belongs to a newer generation.
type ErrHandedOver struct {
	Pipeline  string
	Partition stream.Partition
	To        string // its group
}

// Error says what to do next.
func (e *ErrHandedOver) Error() string {
	return fmt.Sprintf("%v was handed over to %s, a newer generation of pipeline %q: start afterbay run with the file of that generation", e.Partition, e.To, e.Pipeline)
}

// ErrOtherFeatures says that the state beside a partition was written by a
// pipeline whose key, time or features differ.
type ErrOtherFeatures struct {
	Pipeline  string
	Partition stream.Partition
}

// Error says what to do next.
func (e *ErrOtherFeatures) Error() string {
	return fmt.Sprintf("the state of pipeline %q beside %v was written with other features: give the pipeline another name, which starts from the beginning of its input with empty state, or undo the change", e.Pipeline, e.Partition)
}
