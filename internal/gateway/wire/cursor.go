package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"math"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// Cursor is a client's place in the results: all up to Offset were received.
type Cursor struct {
	Epoch     uint64 // of the log: a log that lost records has another one
	Partition int32
	Offset    stream.Offset // of the last result received; -1 is none
	Digest    uint32        // of the record at Offset, by DigestOf; 0 is unknown. A log that was restored from a copy has another one there
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DigestOf tells a record from others that a log may have at its offset; it is not 0.
func DigestOf(r *stream.Record) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(r.Time.UnixMilli()))
	sum := crc32.Checksum(at[:], castagnoli)
	sum = crc32.Update(crc32.Update(sum, castagnoli, r.Key), castagnoli, r.Value)
	for i := range r.Headers {
		sum = crc32.Update(sum, castagnoli, r.Headers[i].Value)
	}
	return max(1, sum)
}

// ErrBadCursor says that a cursor is of another client, or damaged.
var ErrBadCursor = errors.New("the cursor is not one that this client was given")

const (
	cursorVersion       = 1
	cursorVersionDigest = 2 // the digest follows
	cursorBytes         = 1 + 8 + 4 + 8
	digestBytes         = 4
	macBytes            = 16
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

// sign returns the MAC that binds the bytes of a cursor to a client. The first of them
// is the version, which fixes how many there are.
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
	b := append(make([]byte, 0, cursorBytes+digestBytes+macBytes), cursorVersion)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset+1))
	if c.Digest != 0 {
		b[0] = cursorVersionDigest
		b = binary.BigEndian.AppendUint32(b, c.Digest)
	}
	sum := key.sign(b, tenant, client)
	return cursorText.EncodeToString(append(b, sum[:macBytes]...))
}

// ParseCursor reads what Encode returned, or returns ErrBadCursor. The time that
// it takes says nothing of the key.
func ParseCursor(key *CursorKey, tenant, client, text string) (Cursor, error) {
	if len(text) > cursorText.EncodedLen(cursorBytes+digestBytes+macBytes) {
		return Cursor{}, ErrBadCursor
	}
	b, err := cursorText.DecodeString(text)
	signed := len(b) - macBytes
	if err != nil || signed != cursorBytes && signed != cursorBytes+digestBytes {
		return Cursor{}, ErrBadCursor
	}
	if sum := key.sign(b[:signed], tenant, client); !hmac.Equal(b[signed:], sum[:macBytes]) {
		return Cursor{}, ErrBadCursor
	}
	partition, next := binary.BigEndian.Uint32(b[9:]), binary.BigEndian.Uint64(b[13:])
	c := Cursor{Epoch: binary.BigEndian.Uint64(b[1:]), Partition: int32(partition), Offset: stream.Offset(next) - 1}
	version := byte(cursorVersion)
	if signed > cursorBytes {
		version, c.Digest = cursorVersionDigest, binary.BigEndian.Uint32(b[cursorBytes:])
	}
	if b[0] != version || partition > math.MaxInt32 || next > math.MaxInt64 || version == cursorVersionDigest && c.Digest == 0 {
		return Cursor{}, ErrBadCursor
	}
	return c, nil
}
