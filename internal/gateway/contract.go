package gateway

import (
	"net/http"

	"github.com/afterbay/afterbay/internal/gateway/contract"
)

// describe returns a public handler that answers with a document of package contract.
func describe(document func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document())
	}
}

var documents = map[string]func() []byte{"/v1/openapi.json": contract.OpenAPI, "/v1/asyncapi.json": contract.AsyncAPI}
