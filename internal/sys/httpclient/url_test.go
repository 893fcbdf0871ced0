package httpclient

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestMessagesShowNoSecretOfAURL(t *testing.T) {
	for text, want := range map[string][2]string{
		"https://user:secret@hooks.example/services/secret?token=secret#secret": {"https://hooks.example/services/secret?...", "https://hooks.example/...?..."},
		"http://host:8080": {"http://host:8080", "http://host:8080"},
		"http://host/?a=1": {"http://host/?...", "http://host/?..."},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{Shown(u), ShownOrigin(u)}; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	long := &url.URL{Scheme: "http", Host: "host", Path: "/" + strings.Repeat("x", 1000)}
	if got := Shown(long); len(got) != shownMax {
		t.Errorf("%d bytes", len(got))
	}
	for text, want := range map[string]string{
		"ftp://user:secret@host/a@b?secret": "ftp://host/a@b?...", "https://user:se cret@host": "https://host", "nothing?secret": "nothing?...", "mailto:a#secret": "mailto:a", "http://host/a": "http://host/a",
	} {
		if got := ShownText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	inner := errors.New("refused")
	if got := Bare(fmt.Errorf("call: %w", &url.Error{Op: "Post", URL: "http://host/secret", Err: inner})); got != inner {
		t.Error(got)
	}
	if got := Bare(inner); got != inner {
		t.Error(got)
	}
}

func TestSecretsOfAQueryAreFoundByTheirNames(t *testing.T) {
	for query, want := range map[string]string{
		"token=x": "token", "a=1&api_key=x": "api_key", "X-Amz-Signature=x": "X-Amz-Signature", "sig=x": "sig", "password=x": "password", "client%5Fsecret=x": "client_secret",
		"key={key}": "", "key=x": "key", "design=x": "", "dry=1": "", "sslmode=require": "", "token=": "",
	} {
		if got := SecretIn(&url.URL{RawQuery: query}); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
