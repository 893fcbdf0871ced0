package kafkatest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// Issuer gives tokens for client credentials: to the user me&you with the password "s /".
type Issuer struct {
	*httptest.Server
	Given atomic.Int64
	Token func(n int64) string // the n-th
	Lasts int                  // seconds
}

// NewIssuer starts an issuer, which ends with the test.
func NewIssuer(t *testing.T, start func(http.Handler) *httptest.Server) *Issuer {
	t.Helper()
	i := &Issuer{Lasts: 3600, Token: func(n int64) string { return fmt.Sprint("token ", n) }}
	i.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" || user != "me%26you" || password != "s+%2F" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"no such client"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.Token(i.Given.Add(1)), "token_type": "Bearer", "expires_in": i.Lasts})
	}))
	t.Cleanup(i.Close)
	return i
}
