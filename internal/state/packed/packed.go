// Package packed decodes consecutive values without names, as the state of a partition stores them.
package packed

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged means that stored state was changed or is incomplete.
var ErrDamaged = errors.New("stored state is damaged")

// Reader decodes values from the front of Rest. If a value is incomplete, Reader returns zero, sets
// Bad and drops the rest.
type Reader struct {
	Rest []byte
	Bad  bool // a value was incomplete
}

// Whole reports whether all values were complete and no bytes are left.
func (r *Reader) Whole() bool { return !r.Bad && len(r.Rest) == 0 }

func (r *Reader) fail() { r.Rest, r.Bad = nil, true }

// Bytes returns the next n bytes, aliasing Rest, or nil if there are fewer.
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

// Word decodes the next 8 bytes as a little-endian number.
func (r *Reader) Word() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Number decodes a number written by binary.AppendUvarint.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Signed decodes a number written by binary.AppendVarint.
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Count decodes the number of following values, each of at least one byte. It is never greater than
// the number of bytes left.
func (r *Reader) Count() int {
	n := r.Number()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

// Text decodes the result of AppendText, aliasing Rest.
func (r *Reader) Text() []byte { return r.Bytes(r.Number()) }

// AppendText appends the length of text and text.
func AppendText[T []byte | string](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// AppendTexts appends each text after its length plus 1. A missing text is nil and encoded as 0.
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

// NextText decodes the next text of AppendTexts, aliasing from, and returns the rest.
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
