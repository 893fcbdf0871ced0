package remote

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/afterbay/afterbay/model"
)

// idempotencyHeader carries the idempotency key of a call. A server that stores keys answers a
// repeated call with the stored answer.
const idempotencyHeader = "Idempotency-Key"

// name sets the idempotency key of a request. asks identifies the request: its body, or another
// text if the body differs each time.
func name(request *http.Request, asks []byte) {
	key, once := idempotencyKey(request.Context(), request.URL.String(), asks)
	request.Header.Set(idempotencyHeader, key)
	if once {
		// With the key, the HTTP client repeats a request if the server closed an idle connection
		// and the body is available again. Without GetBody it cannot.
		request.GetBody = nil
	}
}

// idempotencyKey returns the key of a call. It is equal for equal rows to the same address about
// the same event, in any process. once reports that only the caller may repeat the call.
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
