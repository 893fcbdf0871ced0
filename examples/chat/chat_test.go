package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/gateway/auth"
)

// serve returns the address of the page, and who checks its tokens.
func serve(t *testing.T) (address string, keys *auth.Keyring) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "tokens.key")
	if err := makeSecret(secret); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(secret)
	if err := makeSecret(secret); err != nil { // there is one
		t.Fatal(err)
	}
	if after, err := os.ReadFile(secret); err != nil || string(after) != string(before) || len(after) < 33 {
		t.Fatalf("the secret was %q and is %q, %v", before, after, err)
	}
	keys, err := auth.New(auth.Keys{Keys: []auth.Key{{ID: "k1", SecretFile: secret, Audience: "chat"}}}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(keys, "ws://gateway"))
	t.Cleanup(server.Close)
	return server.URL, keys
}

func TestTabsOfABrowserAreOneClient(t *testing.T) {
	address, keys := serve(t)
	seen := map[string]bool{}
	for range 2 { // browsers
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{Jar: jar}
		for range 2 { // tabs
			response, err := browser.Post(address+"/session", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			var s struct{ Gateway, Client, Token string }
			err = json.NewDecoder(response.Body).Decode(&s)
			_ = response.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			who, err := keys.Verify(t.Context(), s.Token)
			if err != nil || who.Tenant != "chat" || who.Client != s.Client || s.Gateway != "ws://gateway" {
				t.Errorf("%+v is for %+v, %v", s, who, err)
			}
			seen[s.Client] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("two browsers are %v", seen)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/session", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(&http.Cookie{Name: "client", Value: strings.Repeat("x", 300)})
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("a client that has no name: %s", response.Status)
	}
}

func TestPageFindsItsModules(t *testing.T) {
	address, _ := serve(t)
	for path, want := range map[string]string{"/": "importmap", "/page.js": "@afterbay/client", "/client/index.js": "Client", "/client/link.js": "class Link"} {
		response, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v: %.200s", path, response.Status, err, body)
		}
	}
}

func TestModelRefusesWhatItDoesNotStream(t *testing.T) {
	address, _ := serve(t)
	for _, body := range []string{"", "{}", `{"stream": true}`, `{"messages": [{"content": "hello"}]}`} {
		response, err := http.Post(address+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", body, response.Status)
		}
	}
}
