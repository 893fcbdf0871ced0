// Package hash defines the hash that selects shares of keys: the keys to compare, sample or roll
// out to. The expression hash(x, salt) returns it. It is the same in every version, process and
// partition. See docs/adr/0036-hash.md.
package hash

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"strconv"
	"strings"
	"sync"
)

// Bits is the size of a hash in bits. A number represents each hash exactly.
const Bits = 53

// short is the largest message that is hashed on the stack.
const short = 256

// Of returns the hash of x: an int from 0 to 2^53-1. It is the first 53 bits of the SHA-256 digest
// of a message, as a big-endian integer. The message is the number of bytes of the salt in decimal,
// a colon, the salt, and x. Each use needs its own salt: uses with the same salt select the same
// keys.
func Of[T string | []byte](x T, salt string) int64 {
	var room [short]byte
	message := append(strconv.AppendInt(room[:0], int64(len(salt)), 10), ':')
	if len(message)+len(salt)+len(x) > short {
		return long(message, x, salt)
	}
	digest := sha256.Sum256(append(append(message, salt...), x...))
	return first(digest[:])
}

// Share reads a share, such as 5% or 0.05. Keys with a hash below the result are in the share. ok
// is false if text is no share from 0 to 1.
func Share(text string) (below int64, ok bool) {
	digits, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(digits, 64)
	if percent {
		share /= 100
	}
	return int64(math.Round(share * (1 << Bits))), err == nil && share >= 0 && share <= 1
}

// first returns the first 53 bits of a digest.
func first(digest []byte) int64 { return int64(binary.BigEndian.Uint64(digest) >> (64 - Bits)) }

// stream hashes a message that consists of several pieces.
type stream struct {
	hash.Hash
	piece [1024]byte
}

var streams = sync.Pool{New: func() any { return &stream{Hash: sha256.New()} }}

// long is Of for a message longer than short.
func long[T string | []byte](head []byte, x T, salt string) int64 {
	s := streams.Get().(*stream)
	defer streams.Put(s)
	s.Reset()
	write(s, head)
	write(s, salt)
	write(s, x)
	return first(s.Sum(s.piece[:0]))
}

func write[T string | []byte](s *stream, part T) {
	for len(part) > 0 {
		n := copy(s.piece[:], part)
		s.Write(s.piece[:n])
		part = part[n:]
	}
}
