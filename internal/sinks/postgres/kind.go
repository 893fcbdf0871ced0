package postgres

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

// Kind writes to a PostgreSQL table.
var Kind = sink.Kind{
	Name:    "postgres",
	Help:    "a table of PostgreSQL that has a row for each key, of the newest event",
	Example: "{url: '${DATABASE_URL}', table: artifacts, key: id}",
	New:     func() sink.Config { return &Config{} },
}

// Config keeps one row for each key in a table of PostgreSQL, with the content of the newest event.
type Config struct {
	URL         string       // postgres://user@host/database; the password may be in it, in PGPASSWORD or in the file that PGPASSFILE names
	Table       string       // its name, or schema.name; the sink creates a missing table
	Key         string       // the name that identifies rows
	Columns     []row.Column // the names to write; nil is every name that the records have, each to the column of its name
	Vector      *Vector      // the column of pgvector's type; nil is none
	Version     string       // an expression over the names of the records, of type int, number or time, that compares rows of a key from different partitions; "" refuses those of another partition than the first one's
	ExactlyOnce bool         // stores positions in the database, in the same transactions as the rows
}

// Vector is a column of pgvector's type vector.
type Vector struct {
	Column   string // column of the table
	Index    string // hnsw, which is created if it is missing; "" is no index
	Distance string // distance of the index: cosine (default), l2 or inner_product
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Config) *string { return &t.URL }, spec.ReadAddress), Example: "${DATABASE_URL}"},
	{Name: "table", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Config) *string { return &t.Table }, spec.ReadName), Example: "artifacts"},
	{Name: "key", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Config) *string { return &t.Key }, spec.ReadName), Example: "id", Help: "the name of the records, of type string or int, that is the key of a row"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(t *Config) *[]row.Column { return &t.Columns },
		row.ReadColumns),
		Example: "{id: id, body: text}", Absent: "every name is written, to the column of its name", Help: "names of the records, each with its column: other names are not written"},
	{Name: "vector", Affects: spec.Nothing, Form: spec.Optional(func(t *Config) **Vector { return &t.Vector }, spec.MappingOf(vectorFields)),
		Example: "{column: embed_vector, index: hnsw}", Absent: "none", Help: "the column of pgvector's type `vector`; other vectors are of type `real[]`"},
	{Name: "version", Affects: spec.Nothing, Form: spec.Into(func(t *Config) *string { return &t.Version }, spec.ReadExpression), Example: "revision ?? 0",
		Absent: "a row of another partition than the first one of its key is a dead letter",
		Help:   "an int, number or time, from names of the records and constants, that orders two rows of a key, even if their events are of different partitions"},
	{Name: "exactly_once", Affects: spec.Nothing, Form: spec.Into(func(t *Config) *bool { return &t.ExactlyOnce }, spec.OnlyTrue()), Example: "true",
		Absent: "a repeated row changes nothing if it is not newer", Help: "keeps positions in the table `afterbay_positions`, in the transactions of the rows: no row is written twice, even if rows are deleted meanwhile, and an earlier owner of a partition cannot write"},
}

var vectorFields = []spec.Field[Vector]{
	{Name: "column", Affects: spec.Nothing, Required: true, Form: spec.Into(func(v *Vector) *string { return &v.Column }, spec.ReadName), Example: "embed_vector"},
	{Name: "index", Affects: spec.Nothing, Form: spec.Into(func(v *Vector) *string { return &v.Index }, spec.Choice[string]("hnsw")), Example: "hnsw", Absent: "none is made",
		Help: "built while rows are written, which slows writes down many times: use a separate sink for it"},
	{Name: "distance", Affects: spec.Nothing, Form: spec.Into(func(v *Vector) *string { return &v.Distance }, spec.Choice[string]("cosine", "l2", "inner_product")), Example: "l2", Absent: "cosine", Help: "that the index is for"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Takes implements sink.Taker.
func (c *Config) Takes() sink.Way { return sink.Many }

// Check implements sink.Config.
func (c *Config) Check(t sink.Topic) (found []error) {
	fail := func(field, hint, format string, args ...any) {
		found = append(found, &sink.Mistake{Field: field, Hint: hint, Err: fmt.Errorf(format, args...)})
	}
	if t.Concurrency > connectionsMax {
		found = append(found, &sink.Mistake{Field: "concurrency", Beside: true, Err: fmt.Errorf("%d connections to a database: use 1 to %d", t.Concurrency, connectionsMax)})
	}
	if t.Partial {
		return found
	}
	if c.URL == "" {
		fail("url", "", "missing: write the URL of the database, postgres://host/database")
	}
	if c.Table == "" {
		fail("table", "", "missing: name the table that takes the records")
	}
	mapping, errs := row.Map(t, c.Columns, c.Key, c.Version)
	found = append(found, errs...)
	if t.Deletes && !c.ExactlyOnce {
		fail("exactly_once", "add exactly_once: true", "the emits to %q delete keys: without it, a delayed write could create a deleted row again", t.Name)
	}
	if v := c.Vector; v != nil {
		at := slices.IndexFunc(mapping.Columns, func(o row.Typed) bool { return o.Column == v.Column })
		switch {
		case at < 0:
			fail("vector.column", "it writes "+strings.Join(mapping.Names(), ", "), "nothing is written to a column %q", v.Column)
		case !strings.Contains(mapping.Columns[at].Type.String(), "number["):
			fail("vector.column", "", "%q is of type %v: a vector is of one as number[384]", v.Column, mapping.Columns[at].Type)
		}
	}
	return found
}

// Warnings implements sink.Warner.
func (c *Config) Warnings(sink.Topic) []error { return httpclient.Warnings(c.URL) }

// Open implements sink.Config.
func (c *Config) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	return row.Open(t, c.Columns, c.Key, c.Version, func(mapping *row.Mapping) (sink.Writer, error) {
		o := Options{
			URL: c.URL, Table: c.Table, Vector: c.Vector, Version: mapping.Version, ExactlyOnce: c.ExactlyOnce, Deletes: t.Deletes, Connections: t.Concurrency, Group: t.Group,
		}
		for _, column := range mapping.Columns {
			o.Columns = append(o.Columns, Column(column))
			if column.Name == c.Key {
				o.Key = column.Column
			}
		}
		return New(o)
	})
}

// Describe implements sink.Config.
func (c *Config) Describe() string {
	table := "table " + c.Table
	u, err := url.Parse(c.URL)
	if err != nil {
		return table
	}
	return httpclient.Shown(u) + " " + table
}
