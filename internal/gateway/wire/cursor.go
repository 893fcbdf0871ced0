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

// Cursor is a client's position in the results: the client has received all results up to Offset.
type Cursor struct {
	Epoch     uint64 // epoch of the log; it changes if the log has lost records
	Partition int32
	Offset    stream.Offset // offset of the last result received; -1 if none
	Digest    uint32        // DigestOf the record at Offset; 0 if unknown. In a log that was restored from a copy, another record may be there
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DigestOf returns a checksum that distinguishes a record from others at the same offset. It is
// never 0.
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

// ErrBadCursor means that a cursor belongs to another client or is damaged.
var ErrBadCursor = errors.New("the cursor does not belong to this client")

const (
	cursorVersion       = 1
	cursorVersionDigest = 2 // followed by the digest
	cursorBytes         = 1 + 8 + 4 + 8
	digestBytes         = 4
	macBytes            = 16
)

var cursorText = base64.RawURLEncoding.Strict()

// CursorKey signs cursors. It is safe for concurrent use.
type CursorKey struct{ macs sync.Pool }

// NewCursorKey returns a key made from the given bytes. Use at least 32 bytes, so that attackers
// cannot guess the key.
func NewCursorKey(key []byte) *CursorKey {
	key = bytes.Clone(key)
	return &CursorKey{sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key)} }}}
}

// mac is a reusable HMAC-SHA256, which hashes its key only once, with a buffer for the signed text.
type mac struct {
	hash.Hash
	text []byte
}

const cursorContext = "afterbay.cursor."

// sign returns the MAC that binds the bytes of a cursor to a client. The first byte is the version,
// which determines the length.
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

// Encode returns the cursor as opaque text that only the same client can use. The text ends with an
// HMAC-SHA256 over the cursor and the client, truncated to 16 bytes.
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

// ParseCursor parses a text made by Encode, or returns ErrBadCursor. It compares MACs in constant
// time.
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
