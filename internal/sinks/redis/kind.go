package redis

import (
	"context"
	"net/url"
	"time"

	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

// Kind writes to a Redis server.
var Kind = sink.Kind{
	Name:    "redis",
	Help:    "a hash or JSON text for each key, of the newest event, on a server of Redis",
	Example: "{url: 'redis://cache:6379/0', prefix: 'artifact:', key: id}",
	New:     func() sink.Config { return &Config{} },
}

// Config keeps a hash or a JSON text for each key in Redis, with the content of the newest event.
type Config struct {
	URL     string        // redis://host:port/0, or rediss:// with TLS; it may contain user and password
	Prefix  string        // prefix of each key; "" is none
	Key     string        // the name that holds the key
	As      string        // hash (default), or json: a JSON text
	Columns []row.Column  // the names to write; nil is every name that the records have, each to the field of its name
	TTL     time.Duration // a key that is not written again for this long expires; 0 is never
	Version string        // an expression over the names of the records, of type int, number or time, that compares records of a key from different partitions; "" refuses those of another partition than the first one's
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(k *Config) *string { return &k.URL }, spec.ReadAddress), Example: "redis://cache:6379/0"},
	{Name: "prefix", Affects: spec.Nothing, Form: spec.Into(func(k *Config) *string { return &k.Prefix }, spec.TextOf("a text")), Example: "'artifact:'", Absent: "none"},
	{Name: "key", Affects: spec.Nothing, Required: true, Form: spec.Into(func(k *Config) *string { return &k.Key }, spec.ReadName), Example: "id", Help: "the name of the records, of type string or int, that keys are made of"},
	{Name: "as", Affects: spec.Nothing, Form: spec.Into(func(k *Config) *string { return &k.As }, spec.Choice[string]("hash", "json")), Example: "json", Absent: "hash", Help: "what the value of a key is: a hash, or a JSON text"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(k *Config) *[]row.Column { return &k.Columns },
		row.ReadColumns),
		Example: "{id: id, body: text}", Absent: "every name is written, to the field of its name", Help: "names of the records, each with its field: other names are not written"},
	{Name: "ttl", Affects: spec.Nothing, Form: spec.Into(func(k *Config) *time.Duration { return &k.TTL }, spec.Span(time.Millisecond, 366*spec.Day)), Example: "24h", Absent: "keys stay"},
	{Name: "version", Affects: spec.Nothing, Form: spec.Into(func(k *Config) *string { return &k.Version }, spec.ReadExpression), Example: "updated_at",
		Absent: "a record of another partition than the first one of its key is a dead letter",
		Help:   "an int, number or time, from names of the records and constants, that orders two records of a key, even if their events are of different partitions"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Takes implements sink.Taker.
func (c *Config) Takes() sink.Way { return sink.Many }

// Check implements sink.Config.
func (c *Config) Check(t sink.Topic) []error {
	if t.Partial {
		return nil
	}
	_, found := row.Map(t, c.Columns, c.Key, c.Version)
	return found
}

// Warnings implements sink.Warner.
func (c *Config) Warnings(sink.Topic) []error { return httpclient.Warnings(c.URL) }

// Open implements sink.Config.
func (c *Config) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	return row.Open(t, c.Columns, c.Key, c.Version, func(mapping *row.Mapping) (sink.Writer, error) {
		o := Options{URL: c.URL, Prefix: c.Prefix, Key: c.Key, JSON: c.As == "json", TTL: c.TTL, Deletes: t.Deletes, Version: mapping.Version}
		for _, column := range mapping.Columns {
			o.Fields = append(o.Fields, Field{Name: column.Name, Field: column.Column, Type: column.Type})
		}
		return New(o)
	})
}

// Describe implements sink.Config.
func (c *Config) Describe() string {
	keys := "keys " + c.Prefix + "<" + c.Key + ">"
	u, err := url.Parse(c.URL)
	if err != nil {
		return keys
	}
	return httpclient.Shown(u) + " " + keys
}
