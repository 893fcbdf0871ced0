package postgres

import (
	"context"
	"errors"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/lookup"
)

// Kind is a PostgreSQL database. With pgvector it can find documents by vectors.
var Kind = lookup.Kind{
	Name:    "postgres",
	Help:    "rows that a query of PostgreSQL finds, or documents",
	Example: "{url: '${DATABASE_URL}', query: 'select name, to_jsonb(users) from users where name = any($1)'}",
	New:     func() lookup.Config { return &Config{} },
}

var _ lookup.Searcher = (*Config)(nil)

// Config finds rows of PostgreSQL with a query, or documents by their vectors.
type Config struct {
	URL   string // postgres://HOST:PORT/DATABASE
	Query string // takes the keys as $1, an array of text, and returns the key and row of each key found

	Table  string // instead of Query, for a lookup by Vector: the table of the documents, with or without a schema
	Column string // column of the vectors, with type vector or halfvec of pgvector
}

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Config) *string { return &p.URL }, spec.PathOf(spec.ReadAddress)), Example: "${DATABASE_URL}"},
	{Name: "query", Affects: spec.Outputs, Required: true, Or: "table", Form: spec.Into(func(p *Config) *string { return &p.Query }, spec.TextOf("a query")),
		Example: "select name, to_jsonb(users) from users where name = any($1)", Absent: "required, or `table`"},
	{Name: "table", Affects: spec.Outputs, Form: spec.Into(func(p *Config) *string { return &p.Table }, spec.ReadName), Example: "documents", Absent: "required, or `query`", Help: "instead of `query`, for a lookup by `vector`: the table of the documents, with or without its schema"},
	{Name: "column", Affects: spec.Outputs, Form: spec.Into(func(p *Config) *string { return &p.Column }, spec.ReadName), Example: "embedding", Absent: "required with `table`", Help: "of vectors: its type is vector or halfvec of pgvector"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements lookup.Config.
func (c *Config) Check(lookup.Step) (found []error) {
	for _, word := range []struct{ name, value string }{{"table", c.Table}, {"column", c.Column}} {
		if word.value != "" {
			found = append(found, &lookup.Mistake{
				Field: word.name, Err: errors.New("it applies to documents that are found by a vector, and this lookup has a key"), Hint: "give vector instead of key, or remove it",
			})
		}
	}
	if c.Query == "" {
		found = append(found, &lookup.Mistake{Field: "query", Err: errors.New("missing: say how the rows of keys are found")})
	}
	return found
}

// CheckSearch implements lookup.Searcher.
func (c *Config) CheckSearch(lookup.Search) []error {
	switch {
	case c.Query != "":
		return []error{&lookup.Mistake{Field: "query", Err: errors.New("documents are found by their vectors: give table and column instead")}}
	case c.Table == "" || c.Column == "":
		return []error{errors.New("table or column is missing: name the table of the documents, and its column of vectors")}
	}
	return nil
}

// Open implements lookup.Config.
func (c *Config) Open(ctx context.Context, _ lookup.Step) (lookup.Source, error) {
	return New(ctx, Options{URL: c.URL, Query: c.Query})
}

// OpenSearch implements lookup.Searcher.
func (c *Config) OpenSearch(ctx context.Context, s lookup.Search) (lookup.Source, error) {
	o := NearestOptions{
		URL: c.URL, Table: c.Table, Column: c.Column, Size: s.Size, Distance: s.Distance, Limit: s.Limit, Join: s.Join, Where: s.Where,
	}
	for _, f := range s.Fields {
		t, err := value.ReadType(f.Type)
		if err != nil {
			return nil, err
		}
		o.Columns = append(o.Columns, Column{Name: f.Name, Text: t.Kind == value.String, List: t.Kind == value.List|value.String})
	}
	return NewNearest(ctx, o)
}

// Warnings implements lookup.Warner.
func (c *Config) Warnings(lookup.Step) []error { return httpclient.Warnings(c.URL) }

// Describe implements lookup.Config.
func (c *Config) Describe() string { return httpclient.Place(c.URL) }
