// Package packed reads values that stand one behind the other, without names: as the
// state beside a partition has them.
package packed

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged is the error of state that is not what was stored.
var ErrDamaged = errors.New("stored state is damaged")

// Reader takes values off the front of Rest. What is not there is read as zero, and
// nothing is behind it.
type Reader struct {
	Rest []byte
	Bad  bool // something was not there
}

// Whole reports whether all that was read was there, and nothing is left.
func (r *Reader) Whole() bool { return !r.Bad && len(r.Rest) == 0 }

func (r *Reader) fail() { r.Rest, r.Bad = nil, true }

// Bytes returns the next n bytes, in the memory of Rest; nil where there are fewer.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.fail()
		return nil
	}
	taken := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return taken
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Word returns the number that is the next 8 bytes, little-endian.
func (r *Reader) Word() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Number returns a number of binary.AppendUvarint.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Signed returns a number of binary.AppendVarint.
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Count returns how many values follow, each of a byte at least: never more than
// there are bytes.
func (r *Reader) Count() int {
	n := r.Number()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

// Text returns what AppendText wrote, in the memory of Rest.
func (r *Reader) Text() []byte { return r.Bytes(r.Number()) }

// AppendText appends text behind its length.
func AppendText[T []byte | string](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// AppendTexts appends texts, each behind its length plus 1; 0 is a text that is missing, and nil.
func AppendTexts(dst []byte, texts [][]byte) []byte {
	for _, text := range texts {
		if text == nil {
			dst = append(dst, 0)
			continue
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(text))+1), text...)
	}
	return dst
}

// NextText reads the next text of AppendTexts, in the memory of from, and returns the rest.
func NextText(from []byte) (text, rest []byte, ok bool) {
	size, n := binary.Uvarint(from)
	switch {
	case n <= 0 || size > uint64(len(from)-n)+1:
		return nil, nil, false
	case size == 0:
		return nil, from[n:], true
	}
	end := n + int(size) - 1
	return from[n:end:end], from[end:], true
}
