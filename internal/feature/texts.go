package feature

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Kind is the kind of a feature's values. In an entry each value is a word of 64 bits: for a number
// its unit, for an int the int itself, for a text the place of its bytes.
type Kind uint8

// The kinds of values.
const (
	Numbers Kind = iota
	Ints         // also bools and times: 64 bits that are compared and returned
	Texts        // of at most MaxText bytes
)

// MaxText is the most bytes of a text that a feature keeps.
const MaxText = 1024

// CheckText returns an error if a text has more than MaxText bytes.
func CheckText(v string) error {
	if len(v) > MaxText {
		return fmt.Errorf("a text of %d bytes: a feature keeps at most 1,024, so take a part or a hash of it", len(v))
	}
	return nil
}

// texts holds the bytes of the texts of a list, in the order of its entries: for each entry the
// value, then the group. The word of a text has its length in the lowest bits and the place of its
// first byte above. Places count from the first text of the key.
type texts struct {
	bytes []byte
	base  int    // the place of the first byte in bytes
	group string // group of the next entry
}

const (
	textBits  = 11 // bits of the length of a text
	spareText = 64 // spare bytes in a new array, for short lists
)

// of returns a text.
func (x *texts) of(word int64) []byte {
	at, n := int(word>>textBits)-x.base, int(word&(1<<textBits-1))
	return x.bytes[at : at+n]
}

// put stores a text and returns its word. first is the word of the oldest text still needed, or
// negative if no text is needed. put never overwrites a byte, because Undo needs the old ones.
func (x *texts) put(text string, first int64) int64 {
	end := x.base + len(x.bytes)
	if first < 0 {
		x.bytes, x.base = nil, end
	} else if len(x.bytes)+len(text) > cap(x.bytes) {
		live := x.bytes[int(first>>textBits)-x.base:]
		x.bytes, x.base = append(slices.Grow([]byte(nil), 2*len(live)+len(text)+spareText), live...), end-len(live)
	}
	return appendText(x, text)
}

// appendText appends a text and returns its word.
func appendText[T string | []byte](x *texts, text T) int64 {
	end := x.base + len(x.bytes)
	x.bytes = append(x.bytes, text...)
	return int64(end)<<textBits | int64(len(text))
}

// keepText stores a text for the entry that is appended next, and returns its word.
func (x *exact) keepText(text string) int64 {
	if x.texts == nil {
		x.texts = &texts{}
	}
	first := int64(-1)
	if live := x.live(); len(live) > 0 {
		first = live[1]
	}
	return x.texts.put(text, first)
}

// passText stores a text for one addition to a list without entries.
func (x *exact) passText(text string) int64 {
	if x.texts == nil {
		x.texts = &texts{}
	}
	x.texts.bytes = x.texts.bytes[:0]
	return appendText(x.texts, text)
}

// appendText appends the length and bytes of the text of a word.
func (x *exact) appendText(b []byte, word int64) []byte {
	text := x.texts.of(word)
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// loadText loads the text of the newest entry.
func (x *exact) loadText(r *reader) int64 {
	n := int(r.upTo(MaxText))
	if n > len(r.rest) {
		r.fail("cut short")
		n = 0
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	if x.texts == nil {
		x.texts = &texts{}
	}
	return appendText(x.texts, text)
}
