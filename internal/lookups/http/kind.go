package http

import (
	"context"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/lookup"
)

// Kind is an HTTP service that returns rows.
var Kind = lookup.Kind{
	Name:    "http",
	Help:    "rows that a service answers with",
	Example: "{url: 'https://users.example.com/{key}'}",
	New:     func() lookup.Config { return &Config{} },
}

// Config asks an HTTP service for rows.
type Config struct {
	Asked     string        // path and query of URL as the file has them, if they name variables
	URL       string        // with {key}: sends a GET for each key, and a 404 response means that it has no row; without: sends a POST for many keys, with {"keys": [...]}, and the response is an object of rows by key
	Headers   []spec.Header // headers of every request
	Token     string        // sent as Authorization: Bearer; "" is none
	TokenFile string        // a file with the token, read again for each request; "" is none
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Outputs, Required: true, Form: spec.TargetOf(func(h *Config) *string { return &h.URL }, func(h *Config) *string { return &h.Asked }), Example: "https://users.example.com/{key}"},
	{Name: "headers", Affects: spec.Outputs, Form: spec.Into(func(h *Config) *[]spec.Header { return &h.Headers }, spec.ReadHeaders),
		Example: "{X-Team: risk}", Absent: "none", Help: "names and values, of every request"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(h *Config) *string { return &h.Token }, spec.Secret("token_file")), Example: "${USERS_TOKEN}"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(h *Config) *string { return &h.TokenFile }, spec.ReadPath), Example: "/run/secrets/users"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements lookup.Config.
func (c *Config) Check(lookup.Step) []error { return nil }

// Open implements lookup.Config.
func (c *Config) Open(context.Context, lookup.Step) (lookup.Source, error) {
	o := Options{URL: c.URL, Bearer: c.Token, BearerFile: c.TokenFile, Headers: map[string]string{}}
	for _, h := range c.Headers {
		o.Headers[h.Name] = h.Value
	}
	return New(o)
}

// Warnings implements lookup.Warner.
func (c *Config) Warnings(lookup.Step) []error { return httpclient.Warnings(c.URL) }

// Describe implements lookup.Config.
func (c *Config) Describe() string { return httpclient.Place(c.URL) }
