package remote

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/afterbay/afterbay/model"
)

// idempotencyHeader names a call, so that a server that remembers names answers
// one that comes again from what it remembers.
const idempotencyHeader = "Idempotency-Key"

// name gives a request its name. What it asks is its body, but where that is not
// the same whenever it is made.
func name(request *http.Request, asks []byte) {
	key, once := idempotencyKey(request.Context(), request.URL.String(), asks)
	request.Header.Set(idempotencyHeader, key)
	if once {
		// With the name the client would repeat it where a server closed an idle
		// connection under it, had it the body again.
		request.GetBody = nil
	}
}

// idempotencyKey returns the name of a call: the same for the same rows to the
// same place about the same event, also of another process. Once says that
// nobody but the caller may repeat it.
func idempotencyKey(ctx context.Context, to string, body []byte) (key string, once bool) {
	call := model.CallOf(ctx)
	h := sha256.New()
	var length [binary.MaxVarintLen64]byte
	for _, field := range [...]string{to, call.Event} {
		h.Write(length[:binary.PutUvarint(length[:], uint64(len(field)))])
		h.Write([]byte(field))
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil)[:16]), call.Once
}
