package http_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	httpsink "github.com/afterbay/afterbay/internal/sinks/http"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

func newSink(t *testing.T, o httpsink.Options) *httpsink.Sink {
	t.Helper()
	s, err := httpsink.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestRequestHasTheValueTheKeyAndTheTrace(t *testing.T) {
	type request struct {
		Method, Path, Body string
		Headers            map[string]string
	}
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.RequestURI(), string(body), map[string]string{}}
		for _, name := range []string{"Content-Type", "Idempotency-Key", "Authorization", "X-Team", "Traceparent", "X-Correlation-Id", "Secret"} {
			got.Headers[name] = r.Header.Get(name)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, httpsink.Options{URL: server.URL + "/cards/freeze?dry=1", Method: "PUT", Headers: http.Header{"X-Team": {"risk"}}, TokenFile: token})
	record := &stream.Record{Value: []byte(`{"tx":"t1"}`), Headers: []stream.Header{
		{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
		{Key: "x-correlation-id", Value: []byte("c 1")}, // not printable: a header cannot have it
		{Key: "secret", Value: []byte("s")},
	}}
	if err := s.Deliver(t.Context(), "freeze:t1", record); err != nil {
		t.Fatal(err)
	}
	want := request{"PUT", "/cards/freeze?dry=1", `{"tx":"t1"}`, map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": "freeze:t1", "Authorization": "Bearer first", "X-Team": "risk",
		"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-Correlation-Id": "", "Secret": "",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(token, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), "freeze:t2", record); err != nil || got.Headers["Authorization"] != "Bearer second" {
		t.Errorf("%v, with the token %q", err, got.Headers["Authorization"])
	}
}

func TestStatusSaysWhoseFaultItIs(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 201: "", 204: "",
		400: "refused", 413: "refused", 415: "refused", 422: "refused",
		301: "service", 307: "service", 401: "service", 403: "service", 404: "service", 408: "service", 409: "service",
		429: "later", 500: "service", 502: "service", 503: "later",
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			if status != 204 {
				_, _ = io.WriteString(w, "because\n of\x01 it")
			}
		}))
		err := newSink(t, httpsink.Options{URL: server.URL}).Deliver(t.Context(), "id", &stream.Record{Value: []byte("{}")})
		server.Close()
		var refused *sink.Refused
		var later *sink.Later
		got := ""
		switch {
		case errors.As(err, &refused):
			got = "refused"
		case errors.As(err, &later):
			if got = "later"; later.After != 7*time.Second {
				t.Errorf("%d: later is %v", status, later.After)
			}
		case err != nil:
			got = "service"
		}
		if got != want || calls != 1 {
			t.Errorf("%d: %q after %d calls, want %q: %v", status, got, calls, want, err)
		}
		if err != nil && status/100 != 3 && !strings.Contains(err.Error(), "because") || status == 307 && !strings.Contains(err.Error(), "redirected to http://127.0.0.1:") {
			t.Errorf("%d: the error does not say why: %v", status, err)
		}
	}
}

// TestConnectionThatBreaksIsOneCall cuts a connection that was used before after
// the request came: the client must not send it again by itself.
// TestErrorsShowNoSecretOfTheURL has a webhook with a secret path and query.
func TestErrorsShowNoSecretOfTheURL(t *testing.T) {
	location := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if location != "" {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	s := newSink(t, httpsink.Options{URL: server.URL + "/services/hush?token=hush"})
	wrong := func(what string) {
		t.Helper()
		err := s.Deliver(t.Context(), "id", &stream.Record{Value: []byte("{}")})
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "/...?...: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	wrong("a status")
	location = "https://user:hush@elsewhere/hush?hush"
	wrong("a redirection")
	server.Close()
	wrong("no connection")
	if _, err := httpsink.New(httpsink.Options{URL: "https://host:hush/hush"}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a URL that cannot be read: %v", err)
	}
}

func TestConnectionThatBreaksIsOneCall(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if calls.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	s := newSink(t, httpsink.Options{URL: server.URL})
	for i := range 2 {
		if err := s.Deliver(t.Context(), "id", &stream.Record{Value: []byte("{}")}); (err != nil) != (i == 1) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestServiceThatHangsIsLeft(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := newSink(t, httpsink.Options{URL: server.URL}).Deliver(ctx, "id", &stream.Record{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestKeyIsPrintable(t *testing.T) {
	for id, want := range map[string]string{
		"freeze:t1":              "freeze:t1",
		strings.Repeat("x", 255): strings.Repeat("x", 255),
		strings.Repeat("x", 256): "sha256:",
		"a\nb":                   "sha256:",
		"a b":                    "sha256:",
		"käse":                   "sha256:",
		"":                       "sha256:e3b0c442",
	} {
		if got := httpsink.Key(id); got != want && !(strings.HasPrefix(want, "sha256:") && strings.HasPrefix(got, want) && len(got) == 7+64) {
			t.Errorf("key of %q is %q", id, got)
		}
	}
	if httpsink.Key("a b") == httpsink.Key("a  b") {
		t.Error("two ids have one key")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for what, o := range map[string]httpsink.Options{
		"not valid":  {URL: "cards.example.com/freeze"},
		"password":   {URL: "https://user:password@cards.example.com/"},
		"method":     {URL: "http://cards", Method: "GET"},
		"own":        {URL: "http://cards", Headers: http.Header{"idempotency-key": {"x"}}},
		"header":     {URL: "http://cards", Headers: http.Header{"X-Team": {"a\r\nb"}}},
		"name":       {URL: "http://cards", Headers: http.Header{"X Team": {"a"}}},
		"exclude":    {URL: "http://cards", Token: "x", TokenFile: "y"},
		"-1 connect": {URL: "http://cards", Connections: -1},
	} {
		if _, err := httpsink.New(o); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "user:password") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
