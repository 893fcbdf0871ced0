package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

// Kind calls a service over HTTP.
var Kind = sink.Kind{
	Name:    "http",
	Help:    "the service: it gets a request for each record, with the value as its body and the id as its Idempotency-Key",
	Example: "{url: 'https://cards.example.com/freeze'}",
	New:     func() sink.Config { return &Config{} },
}

// Config sends a request to a service for each record: the value as body, the id as
// Idempotency-Key.
type Config struct {
	URL       string        // URL of the service
	Method    string        // POST (default), PUT or PATCH
	Headers   []spec.Header // headers of every request
	Token     string        // sent as Authorization: Bearer; "" is none
	TokenFile string        // a file with the token, read again for each request; "" is none
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(h *Config) *string { return &h.URL }, spec.ReadURL), Example: "https://cards.example.com/freeze"},
	{Name: "method", Affects: spec.Nothing, Form: spec.Into(func(h *Config) *string { return &h.Method }, spec.Choice[string]("POST", "PUT", "PATCH")), Example: "PUT", Absent: "POST",
		Help: "of the request"},
	{Name: "headers", Affects: spec.Nothing, Form: spec.Into(func(h *Config) *[]spec.Header { return &h.Headers }, spec.ReadHeaders),
		Example: "{X-Team: risk}", Absent: "none", Help: "names and values, of every request"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(h *Config) *string { return &h.Token }, spec.Secret("token_file")), Example: "${CARD_TOKEN}"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(h *Config) *string { return &h.TokenFile }, spec.ReadPath), Example: "/run/secrets/cards"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements sink.Config.
func (c *Config) Check(t sink.Topic) []error {
	if t.Deletes {
		return []error{&sink.Mistake{Err: fmt.Errorf("the emits to %q delete keys, and a request needs a value", t.Name), Hint: "emit deletions as events with a marking member, to a separate topic"}}
	}
	switch u, err := url.Parse(c.URL); {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return []error{&sink.Mistake{Field: "url", Err: errors.New("the URL is not valid: use http://HOST/PATH or https://HOST/PATH")}}
	case u.User != nil:
		return []error{&sink.Mistake{Field: "url", Err: errors.New("it has a user and password, which errors would show"), Hint: "use `token`, `token_file` or `headers`"}}
	}
	return nil
}

// Warnings implements sink.Warner.
func (c *Config) Warnings(sink.Topic) []error { return httpclient.Warnings(c.URL) }

// Open implements sink.Config.
func (c *Config) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	headers := http.Header{}
	for _, h := range c.Headers {
		headers.Add(h.Name, h.Value)
	}
	made, err := New(Options{URL: c.URL, Method: c.Method, Headers: headers, Token: c.Token, TokenFile: c.TokenFile, Connections: t.Concurrency})
	return sink.Service{Each: made}, err
}

// Describe implements sink.Config.
func (c *Config) Describe() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	return httpclient.ShownOrigin(u) // the path may contain a secret
}
