// Package terms finds byte strings in a vocabulary.
package terms

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Table maps terms to their positions in a list. It is immutable and safe for concurrent use.
type Table struct {
	slots   []slot // open addressing, at most half full
	shift   uint
	ends    []uint32 // end of term i in text; it starts at the end of the term before
	text    []byte
	longest int
}

// slot is the code of a term, its length, and 1 + its position; 0 is empty. Terms of the same
// length up to inlineMax are equal if their codes are.
type slot struct {
	code   uint64
	length uint32
	id     uint32
}

const inlineMax = 8

// New builds the table of a list. An empty string is a position without a term. New fails if a term
// occurs twice, or if the list exceeds 2 GiB.
func New(list []string) (*Table, error) {
	size := 0
	for _, term := range list {
		size += len(term)
	}
	if size > math.MaxInt32 || len(list) > math.MaxInt32/4 {
		return nil, fmt.Errorf("%d terms of %d bytes are more than a table takes", len(list), size)
	}
	width := max(4, bits.Len(uint(2*len(list))))
	t := &Table{
		slots: make([]slot, 1<<width), shift: uint(64 - width),
		ends: make([]uint32, len(list)), text: make([]byte, 0, size+8),
	}
	for i, term := range list {
		t.text = append(t.text, term...)
		t.ends[i] = uint32(len(t.text))
		t.longest = max(t.longest, len(term))
		if term == "" {
			continue
		}
		key := []byte(term)
		if _, ok := t.Find(key); ok {
			return nil, fmt.Errorf("term %q occurs twice", clip(term))
		}
		code := codeOf(key)
		at := place(code, len(key)) >> t.shift
		for t.slots[at].id != 0 {
			at = (at + 1) & uint64(len(t.slots)-1)
		}
		t.slots[at] = slot{code, uint32(len(key)), uint32(i) + 1}
	}
	return t, nil
}

func clip(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}

// Longest returns the length of the longest term in bytes.
func (t *Table) Longest() int { return t.longest }

// Len returns the length of the list, including positions without a term.
func (t *Table) Len() int { return len(t.ends) }

// Find returns the position of key in the list.
func (t *Table) Find(key []byte) (int, bool) {
	if len(key) > t.longest || len(key) == 0 {
		return 0, false
	}
	code := codeOf(key)
	at := place(code, len(key)) >> t.shift
	for {
		s := &t.slots[at]
		if s.id == 0 {
			return 0, false
		}
		if s.code == code && int(s.length) == len(key) &&
			(len(key) <= inlineMax || string(t.term(int(s.id-1))) == string(key)) {
			return int(s.id - 1), true
		}
		at = (at + 1) & uint64(len(t.slots)-1)
	}
}

func (t *Table) term(id int) []byte {
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	return t.text[start:t.ends[id]]
}

const (
	multiplier = 0x9e3779b97f4a7c15
	other      = 0xe7037ed1a0b428db
)

// place mixes a code, so that its highest bits are a hash. Vocabularies are trusted not to collide:
// a text cannot slow down the table further.
func place(code uint64, length int) uint64 {
	high, low := bits.Mul64(code^uint64(length)*other, multiplier)
	return high ^ low
}

// codeOf returns the bytes of a short key as a number, or a hash of a long key.
func codeOf(key []byte) uint64 {
	n := len(key)
	if n > inlineMax {
		hash := uint64(n) * multiplier
		for len(key) > 8 {
			high, low := bits.Mul64(hash^binary.LittleEndian.Uint64(key), other)
			hash = high ^ low
			key = key[8:]
		}
		return hash ^ codeOf(key)*multiplier
	}
	switch {
	case n == 8:
		return binary.LittleEndian.Uint64(key)
	case n >= 4:
		first, last := binary.LittleEndian.Uint32(key), binary.LittleEndian.Uint32(key[n-4:])
		return uint64(first) | uint64(last)<<32
	case n > 0:
		return uint64(key[0]) | uint64(key[n/2])<<8 | uint64(key[n-1])<<16
	}
	return 0
}
