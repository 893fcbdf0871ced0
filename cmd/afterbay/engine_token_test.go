package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
)

// issuer gives tokens for client credentials.
type issuer struct {
	*httptest.Server
	given atomic.Int64
	token func(n int64) string // the n-th
	lasts int
}

func newIssuer(t *testing.T, start func(http.Handler) *httptest.Server) *issuer {
	i := &issuer{lasts: 3600, token: func(n int64) string { return fmt.Sprint("token ", n) }}
	i.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" || user != "me%26you" || password != "s+%2F" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"no such client"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.token(i.given.Add(1)), "token_type": "Bearer", "expires_in": i.lasts})
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) engine(env map[string]string) *engine {
	return &engine{Engine: afterbay.Engine{SASL: "oauthbearer", TokenURL: i.URL, Scope: "kafka", User: "me&you"}, env: func(name string) string { return env[name] }}
}

// TestTokensAreKeptForMostOfTheirLife asks for one again after four fifths.
func TestTokensAreKeptForMostOfTheirLife(t *testing.T) {
	i := newIssuer(t, httptest.NewServer)
	g := newGrant(i.engine(map[string]string{envPassword: "s /"}))
	for range 2 {
		if got, err := g.token(t.Context()); err != nil || got != "token 1" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if left := time.Until(g.until); left < 47*time.Minute || left > 48*time.Minute {
		t.Errorf("a token of an hour is kept for %v", left)
	}
	g.until, i.lasts = time.Time{}, 0 // a server that does not say how long one lasts
	for _, want := range []string{"token 2", "token 3"} {
		if got, err := g.token(t.Context()); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestRefusedTokensSayWhy(t *testing.T) {
	i := newIssuer(t, httptest.NewTLSServer)
	e := i.engine(map[string]string{envPassword: "s /"})
	g := newGrant(e)
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	e.CA = t.TempDir() + "/ca.pem"
	write(t, e.CA, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})))
	g = newGrant(e)
	if got, err := g.token(t.Context()); err != nil || got != "token 1" {
		t.Errorf("%q, %v", got, err)
	}
	g = newGrant(e)
	g.user = "stranger"
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "401 Unauthorized no such client") || strings.Contains(err.Error(), "s /") {
		t.Errorf("a stranger: %v", err)
	}
	i.token = func(int64) string { return "" }
	g = newGrant(e)
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "no access_token") {
		t.Errorf("an empty token: %v", err)
	}
}
