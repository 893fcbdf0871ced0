package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"math"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// Cursor is a client's place in the results: all up to Offset were received.
type Cursor struct {
	Epoch     uint64 // of the log: a log that lost records has another one
	Partition int32
	Offset    stream.Offset // of the last result received; -1 is none
}

// ErrBadCursor says that a cursor is of another client, or damaged.
var ErrBadCursor = errors.New("the cursor is not one that this client was given")

const (
	cursorVersion = 1
	cursorBytes   = 1 + 8 + 4 + 8
	macBytes      = 16
)

var cursorText = base64.RawURLEncoding.Strict()

// CursorKey signs cursors. It may be used by many goroutines.
type CursorKey struct{ macs sync.Pool }

// NewCursorKey returns a key of these bytes, at least 32 of them where others are
// not to guess it.
func NewCursorKey(key []byte) *CursorKey {
	key = bytes.Clone(key)
	return &CursorKey{sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key)} }}}
}

// mac is HMAC-SHA256 by a key, which is hashed once, and room for what it signs.
type mac struct {
	hash.Hash
	text []byte
}

const cursorContext = "afterbay.cursor."

// sign returns the MAC that binds the bytes of a cursor, whose length is fixed, to a
// client.
func (k *CursorKey) sign(cursor []byte, tenant, client string) (sum [sha256.Size]byte) {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.text = append(append(append(m.text[:0], cursorContext...), cursor...), tenant...)
	m.text = append(append(m.text, '/'), client...)
	m.Reset()
	m.Write(m.text)
	m.text = m.Sum(m.text[:0])
	copy(sum[:], m.text)
	return sum
}

// Encode returns the cursor as text, opaque, that only the same client can use:
// it ends in an HMAC-SHA256 of it and the client by key, cut to 16 bytes.
func (c Cursor) Encode(key *CursorKey, tenant, client string) string {
	b := append(make([]byte, 0, cursorBytes+macBytes), cursorVersion)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset+1))
	sum := key.sign(b, tenant, client)
	return cursorText.EncodeToString(append(b, sum[:macBytes]...))
}

// ParseCursor reads what Encode returned, or returns ErrBadCursor. The time that
// it takes says nothing of the key.
func ParseCursor(key *CursorKey, tenant, client, text string) (Cursor, error) {
	if len(text) != cursorText.EncodedLen(cursorBytes+macBytes) {
		return Cursor{}, ErrBadCursor
	}
	b, err := cursorText.DecodeString(text)
	if err != nil || len(b) != cursorBytes+macBytes {
		return Cursor{}, ErrBadCursor
	}
	if sum := key.sign(b[:cursorBytes], tenant, client); !hmac.Equal(b[cursorBytes:], sum[:macBytes]) {
		return Cursor{}, ErrBadCursor
	}
	partition, next := binary.BigEndian.Uint32(b[9:]), binary.BigEndian.Uint64(b[13:])
	if b[0] != cursorVersion || partition > math.MaxInt32 || next > math.MaxInt64 {
		return Cursor{}, ErrBadCursor
	}
	return Cursor{Epoch: binary.BigEndian.Uint64(b[1:]), Partition: int32(partition), Offset: stream.Offset(next) - 1}, nil
}
