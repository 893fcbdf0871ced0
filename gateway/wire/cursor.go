package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"

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

// Encode returns the cursor as text, opaque, that only the same client can use:
// it ends in an HMAC-SHA256 of it and the client by key, cut to 16 bytes.
func (c Cursor) Encode(key []byte, tenant, client string) string {
	b := make([]byte, 0, cursorBytes+macBytes)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset+1))
	return cursorText.EncodeToString(append(b, cursorMAC(key, b, tenant, client)...))
}

// ParseCursor reads what Encode returned, or returns ErrBadCursor. The time that
// it takes says nothing of the key.
func ParseCursor(key []byte, tenant, client, text string) (Cursor, error) {
	if len(text) != cursorText.EncodedLen(cursorBytes+macBytes) {
		return Cursor{}, ErrBadCursor
	}
	b, err := cursorText.DecodeString(text)
	if err != nil || len(b) != cursorBytes+macBytes || !hmac.Equal(b[cursorBytes:], cursorMAC(key, b[:cursorBytes], tenant, client)) {
		return Cursor{}, ErrBadCursor
	}
	partition, next := binary.BigEndian.Uint32(b[9:]), binary.BigEndian.Uint64(b[13:])
	if b[0] != cursorVersion || partition > math.MaxInt32 || next > math.MaxInt64 {
		return Cursor{}, ErrBadCursor
	}
	return Cursor{Epoch: binary.BigEndian.Uint64(b[1:]), Partition: int32(partition), Offset: stream.Offset(next) - 1}, nil
}

// cursorMAC binds the bytes of a cursor, whose length is fixed, to a client.
func cursorMAC(key, cursor []byte, tenant, client string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("afterbay.cursor."))
	h.Write(cursor)
	h.Write([]byte(Key(tenant, client)))
	return h.Sum(nil)[:macBytes]
}
