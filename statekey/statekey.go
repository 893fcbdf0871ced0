// Package statekey is the keys of a pipeline's state beside a partition: a byte
// of kind, and what it is of.
package statekey

import "encoding/binary"

// Kinds of state keys: the first byte of each. A user key has an entry and
// blocks in each of a plan's two sets of features, early and late.
const (
	Generation = 'g' // -> generation, digests
	Watermark  = 'w' // -> newest event time
	Source     = 's' // topic/partition -> newest watermark that came from there
	ID         = 'd' // number -> ids seen
	Call       = 'c' // user key, function -> its state and timers
)

const (
	headers = "el" // user key -> header of the early, late cell
	blocks  = "EL" // user key, block -> entries of an exact window
)

// Header returns the prefix of the headers of a set's cells.
func Header(set int) []byte { return []byte{headers[set]} }

// AppendCell appends the key of a cell's header, where sub is empty, or of one
// of its blocks.
func AppendCell(dst []byte, set int, key string, sub []byte) []byte {
	if len(sub) == 0 {
		return append(append(dst, headers[set]), key...)
	}
	return append(appendSized(dst, blocks[set], key), sub...)
}

// AppendCall appends the key of what a function keeps of a user key.
func AppendCall(dst []byte, key, function string) []byte {
	return append(appendSized(dst, Call, key), function...)
}

// CallKey returns the user key of a key that AppendCall made; ok is false where
// it made no such.
func CallKey(stored []byte) (key []byte, ok bool) {
	size, n := binary.Uvarint(stored[1:])
	if n <= 0 || size > uint64(len(stored)-1-n) {
		return nil, false
	}
	return stored[1+n:][:size], true
}

func appendSized(dst []byte, kind byte, key string) []byte {
	return append(binary.AppendUvarint(append(dst, kind), uint64(len(key))), key...)
}

// Prefixes returns what the keys of a user key's cells start with, in their
// order. Owns tells which of the keys found are really its.
func Prefixes(key string) [][]byte {
	var list [][]byte
	for _, kind := range []byte(blocks) {
		list = append(list, appendSized(nil, kind, key))
	}
	for _, kind := range []byte(headers) {
		list = append(list, append([]byte{kind}, key...))
	}
	return list
}

// Owns reports whether a state key that starts with one of Prefixes(key) is of
// that user key, and not of a longer one.
func Owns(stored []byte, key string) bool {
	header := stored[0] == headers[0] || stored[0] == headers[1]
	return !header || string(stored[1:]) == key
}
