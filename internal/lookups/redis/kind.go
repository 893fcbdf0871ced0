package redis

import (
	"context"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/lookup"
)

// Kind is a Redis server.
var Kind = lookup.Kind{
	Name:    "redis",
	Help:    "rows that are values of Redis",
	Example: "{url: 'redis://cache:6379/0', prefix: 'user:'}",
	New:     func() lookup.Config { return &Config{} },
}

// Config reads rows from Redis: each is the value of a key. A key of a type other than string has
// no row.
type Config struct {
	URL    string // redis://HOST:PORT/DATABASE, or rediss:// with TLS
	Prefix string // prefix of keys in Redis: user: finds the row of ann at user:ann
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Outputs, Required: true, Form: spec.Into(func(r *Config) *string { return &r.URL }, spec.PathOf(spec.ReadAddress)), Example: "redis://cache:6379/0"},
	{Name: "prefix", Affects: spec.Outputs, Form: spec.Into(func(r *Config) *string { return &r.Prefix }, spec.TextOf("a text")), Example: "'user:'", Absent: "none"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements lookup.Config.
func (c *Config) Check(lookup.Step) []error { return nil }

// Open implements lookup.Config.
func (c *Config) Open(context.Context, lookup.Step) (lookup.Source, error) {
	return New(Options{URL: c.URL, Prefix: c.Prefix})
}

// Warnings implements lookup.Warner.
func (c *Config) Warnings(lookup.Step) []error { return httpclient.Warnings(c.URL) }

// Describe implements lookup.Config.
func (c *Config) Describe() string { return httpclient.Place(c.URL) }
