package kafka

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

// credentialsOf returns credentials for an issuer.
func credentialsOf(i *kafkatest.Issuer, env map[string]string) *credentials {
	settings := Settings{SASL: "oauthbearer", TokenURL: i.URL, Scope: "kafka", User: "me&you"}
	return &credentials{&settings, Environment{Get: func(name string) string { return env[name] }, Last: true}}
}

// TestTokensAreKeptForMostOfTheirLife asks for one again after four fifths.
func TestTokensAreKeptForMostOfTheirLife(t *testing.T) {
	i := kafkatest.NewIssuer(t, httptest.NewServer)
	g := newGrant(credentialsOf(i, map[string]string{EnvPassword: "s /"}))
	for range 2 {
		if got, err := g.token(t.Context()); err != nil || got != "token 1" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if left := time.Until(g.until); left < 47*time.Minute || left > 48*time.Minute {
		t.Errorf("a token of an hour is kept for %v", left)
	}
	g.until, i.Lasts = time.Time{}, 0 // a server that does not say how long one lasts
	for _, want := range []string{"token 2", "token 3"} {
		if got, err := g.token(t.Context()); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestRefusedTokensSayWhy(t *testing.T) {
	i := kafkatest.NewIssuer(t, httptest.NewTLSServer)
	e := credentialsOf(i, map[string]string{EnvPassword: "s /"})
	g := newGrant(e)
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	e.CA = t.TempDir() + "/ca.pem"
	if err := os.WriteFile(e.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	g = newGrant(e)
	if got, err := g.token(t.Context()); err != nil || got != "token 1" {
		t.Errorf("%q, %v", got, err)
	}
	g = newGrant(e)
	g.user = "stranger"
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "401 Unauthorized no such client") || strings.Contains(err.Error(), "s /") {
		t.Errorf("a stranger: %v", err)
	}
	i.Token = func(int64) string { return "" }
	g = newGrant(e)
	if _, err := g.token(t.Context()); err == nil || !strings.Contains(err.Error(), "no access_token") {
		t.Errorf("an empty token: %v", err)
	}
}
