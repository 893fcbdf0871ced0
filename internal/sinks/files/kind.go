package files

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
)

// Kind stores records in a folder or a bucket.
var Kind = sink.Kind{
	Name:    "files",
	Help:    "a folder or a bucket: the records are kept there as objects, each record in one of them",
	Example: "{url: 'file:///data/decisions', rows: 10000, wait: 1m}",
	New:     func() sink.Config { return &Config{} },
}

// Config stores records as objects in a folder or a bucket, each record in one of them. An object
// is complete after a number of records, a size or a time, whichever comes first.
type Config struct {
	URL         string           // file:///FOLDER or s3://BUCKET/PREFIX
	S3          spec.ObjectStore // server and credentials of a bucket
	Format      string           // parquet (default) or ndjson
	Compression string           // gzip or zstd; "" is snappy for parquet and none for ndjson
	Rows        int              // records in an object; 0 is 100,000
	Bytes       int              // size of the keys, values and headers of its records; 0 is 128 MiB
	Wait        time.Duration    // time since the first of its records arrived; 0 is 5 m
	Columns     []Column         // columns of parquet; nil is those of the emits
}

var readColumns = spec.Named(func(c *Column) *string { return &c.Name }, spec.Into(func(c *Column) *string { return &c.Type }, spec.ReadType))

var configFields = []spec.Field[Config]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(f *Config) *string { return &f.URL }, spec.ReadURL), Example: "'s3://bucket/decisions'"},
	{Name: "s3", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *spec.ObjectStore { return &f.S3 }, spec.MappingOf(spec.StoreFields)), Example: "{endpoint: 'https://store.example.com', region: eu-west-1}", Absent: "as below", Help: "server and credentials of a bucket"},
	{Name: "format", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *string { return &f.Format }, spec.Choice[string]("parquet", "ndjson")), Example: "ndjson", Absent: "parquet",
		Help: "the format of an object"},
	{Name: "compression", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *string { return &f.Compression }, spec.Choice[string]("gzip", "zstd")), Example: "zstd", Absent: "parquet is compressed by snappy, ndjson is not",
		Help: "how it is compressed"},
	{Name: "rows", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *int { return &f.Rows }, spec.Whole[int](1, 10_000_000)), Example: "10000", Help: "most records of an object"},
	{Name: "bytes", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *int { return &f.Bytes }, spec.Size(1, 1<<30)), Example: "16MiB", Help: "of the keys, values and headers of its records, beyond which it is complete"},
	{Name: "wait", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *time.Duration { return &f.Wait }, spec.Span(time.Second, spec.Day)), Example: "1m", Help: "since the first of its records came, after which it is complete"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(f *Config) *[]Column { return &f.Columns }, readColumns), Example: "{customer: string, amount: number}",
		Absent: "those of the `emit` steps that write the topic", Help: "of parquet: members of the values and their types; each may be absent"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// ownColumns is the prefix of the columns that the sink adds.
const ownColumns = "afterbay_"

// Takes implements sink.Taker.
func (c *Config) Takes() sink.Way { return sink.Whole }

// Bounds implements sink.Bounded.
func (c *Config) Bounds() sink.Bounds { return sink.Bounds{Rows: c.Rows, Bytes: c.Bytes, Wait: c.Wait} }

// Check implements sink.Config.
func (c *Config) Check(t sink.Topic) (found []error) {
	fail := func(field, hint, format string, args ...any) {
		found = append(found, &sink.Mistake{Field: field, Hint: hint, Err: fmt.Errorf(format, args...)})
	}
	scheme, rest, _ := strings.Cut(c.URL, "://")
	switch {
	case strings.ContainsAny(rest, "@?#"):
		fail("url", "use file:///FOLDER or s3://BUCKET/PREFIX", "the URL has a user, or more than a path")
	case scheme == "file" && strings.HasPrefix(rest, "/") || scheme == "s3" && rest != "" && rest[0] != '/':
	default:
		fail("url", "", "the URL is not valid: use file:///FOLDER, from the root, or s3://BUCKET/PREFIX")
	}
	if scheme == "file" && c.S3 != (spec.ObjectStore{}) {
		fail("s3", "", "it has no effect for a folder: it is for s3://BUCKET/PREFIX")
	}
	if c.Format == string(NDJSON) {
		if c.Columns != nil {
			fail("columns", "", "ndjson stores all members of a value: columns are for parquet")
		}
		return found
	}
	columns, errs := c.columns(t)
	found = append(found, errs...)
	for i, column := range columns {
		switch _, err := value.ReadType(column.Type); {
		case err != nil:
			fail("columns."+column.Name, "", "%w", err)
		case strings.HasPrefix(column.Name, ownColumns):
			fail("", "emit it under another name", "the column %s: names that begin with %s are the sink's own", column.Name, ownColumns)
		case slices.ContainsFunc(columns[:i], func(o Column) bool { return o.Name == column.Name }):
			fail("", "", "two columns are named %s", column.Name)
		}
	}
	return found
}

// columns returns the Parquet columns: those of the file, or else the members of the values that
// emit steps write.
func (c *Config) columns(t sink.Topic) (columns []Column, found []error) {
	if c.Columns != nil || c.Format == string(NDJSON) {
		return c.Columns, nil
	}
	for _, column := range t.Columns {
		if column.Type == "" {
			found = append(found, &sink.Mistake{
				Err: fmt.Errorf("the emits to %s write %s with several types", t.Name, column.Name), Hint: "give it another name in one of them, or use `format: ndjson`",
			})
			continue
		}
		columns = append(columns, Column(column))
	}
	if len(t.Columns) == 0 && !t.Partial {
		found = append(found, &sink.Mistake{
			Field: "columns", Err: fmt.Errorf("missing: no emit writes %s, so the types of its values are not known", t.Name),
			Hint: "name them, as in `columns: {customer: string, amount: number}`, or use `format: ndjson`",
		})
	}
	return columns, found
}

// Open implements sink.Config.
func (c *Config) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	columns, found := c.columns(t)
	if err := errors.Join(found...); err != nil {
		return sink.Service{}, err
	}
	archive, err := New(Options{
		URL: c.URL, Format: Format(c.Format), Compress: c.Compression, Columns: columns, Deletes: t.Deletes, Digest: t.Fingerprint,
		S3: S3{Endpoint: c.S3.Endpoint, Region: c.S3.Region, Credentials: c.S3.Credentials, Profile: c.S3.Profile},
	})
	return sink.Service{Whole: archive}, err
}

// Describe implements sink.Config.
func (c *Config) Describe() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	return httpclient.Shown(u)
}
