// Package files stores records as objects, in Parquet or NDJSON, in a folder or a bucket. Each
// record is in exactly one object.
package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Format is the file format of objects.
type Format string

// The values of Format.
const (
	Parquet Format = "parquet"
	NDJSON  Format = "ndjson"
)

// Options configures an Archive. URL is required; Parquet also requires Columns.
type Options struct {
	URL      string // file:///FOLDER or s3://BUCKET/PREFIX
	Format   Format // "" is Parquet
	Compress string // gzip or zstd, for Parquet also snappy; "" is snappy for Parquet and none for NDJSON
	Columns  []Column
	Deletes  bool   // records may have no value: Parquet then has the column Deleted
	Digest   string // digest of the pipeline that writes records with these columns, as in the records
	S3       S3

	FS vfs.FS // file system of a folder; nil is the operating system's
}

// Column is a member of the records' values. It is always optional, because another version of the
// pipeline may not have written it.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // in the notation of pipeline files
}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch u, err := url.Parse(o.URL); {
	case err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		fail("%q is not a valid URL: use file:///FOLDER or s3://BUCKET/PREFIX", httpclient.ShownText(o.URL))
	case u.Scheme == "file" && u.Host == "" && path.IsAbs(u.Path):
	case u.Scheme == "s3" && u.Host != "":
	default:
		fail("%q is not a valid URL: use file:///FOLDER, from the root, or s3://BUCKET/PREFIX", httpclient.ShownText(o.URL))
	}
	switch o.Format {
	case "", Parquet:
		if len(o.Columns) == 0 {
			fail("parquet needs columns: name them, or use ndjson")
		}
	case NDJSON:
		if o.Compress == "snappy" {
			fail("snappy is for parquet: use gzip or zstd")
		}
	default:
		fail("format %q: use parquet or ndjson", o.Format)
	}
	switch o.Compress {
	case "", "snappy", "gzip", "zstd":
	default:
		fail("compress %q: use gzip or zstd, and for parquet snappy too", o.Compress)
	}
	seen := map[string]bool{}
	for _, c := range o.Columns {
		if _, err := value.ReadType(c.Type); err != nil {
			fail("column %q: %w", c.Name, err)
		}
		switch {
		case strings.HasPrefix(c.Name, Prefix):
			fail("column %q: names that begin with %s are the sink's own", c.Name, Prefix)
		case seen[c.Name]:
			fail("column %q is named twice", c.Name)
		}
		seen[c.Name] = true
	}
	return errors.Join(errs...)
}

// Archive stores objects. It is safe for concurrent use. Create one with New.
//
// The path of an object is <url>/<group>/generation-<g>/partition-<p>/<from>-<to>.<ending>. g is
// the generation of the pipeline that wrote the records, 0 if no pipeline did. The object has the
// records of that generation with offsets from from up to, but not including, to. Its bytes depend
// only on those records and on the form decided for it.
type Archive struct {
	options Options
	place   place
}

var _ sink.Archive = (*Archive)(nil)

// place is a destination of objects.
type place interface {
	// begin starts a draft of an object, which is not visible.
	begin(ctx context.Context, name string) (draft, error)

	// check returns an error if objects cannot be stored here.
	check(ctx context.Context) error
}

// draft is an object that one goroutine is writing. It ends with keep or drop.
type draft interface {
	io.Writer

	// keep makes the whole object visible and returns when it is durable. If the same object
	// exists, keep does nothing. If another object has its name, the error is a *TakenError. sum is
	// the SHA-256 of the written bytes.
	keep(ctx context.Context, sum [sha256.Size]byte) error

	// drop discards the draft. After keep it does nothing.
	drop()
}

// TakenError means that another object already has the name.
type TakenError struct{ Name string }

// Error says which object, and what to do.
func (e *TakenError) Error() string {
	return fmt.Sprintf("another object is stored as %s, and the sink does not overwrite it; move it away, or give the sink another url", e.Name)
}

// New returns an archive. It opens no connection and creates no folder.
func New(o Options) (*Archive, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Format == "" {
		o.Format = Parquet
	}
	if o.Compress == "" && o.Format == Parquet {
		o.Compress = "snappy"
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	a := &Archive{options: o}
	if u.Scheme == "s3" {
		a.place, err = newBucket(u.Host, strings.Trim(u.Path, "/"), o.S3)
		return a, err
	}
	if o.FS == nil {
		o.FS = vfs.Shared()
	}
	a.place = newFolder(o.FS, filepath.FromSlash(path.Clean(u.Path)))
	return a, nil
}

// Close closes the idle connections.
func (a *Archive) Close() {
	if b, ok := a.place.(*bucket); ok {
		b.close()
	}
}

// Check returns an error if objects cannot be stored at the destination. It leaves no files there.
func (a *Archive) Check(ctx context.Context) []error {
	if err := a.place.check(ctx); err != nil {
		return []error{err}
	}
	return nil
}

// partsMax is the maximum number of files that one object may need for different generations and
// versions.
const partsMax = 8

// Keep implements sink.Archive.
func (a *Archive) Keep(ctx context.Context, o sink.Object, records iter.Seq2[stream.Record, error], refuse sink.Refuse) (kept int, err error) {
	k := keeping{Archive: a, object: o}
	if k.form, err = readForm(o.Form); err != nil {
		return 0, err
	}
	defer k.drop()
	for r, err := range records {
		if err != nil {
			return 0, err
		}
		p, err := k.part(ctx, &r)
		if err != nil {
			return 0, err
		}
		if err := p.rows.write(&r); err != nil {
			var bad *unfit
			if !errors.As(err, &bad) {
				return 0, fmt.Errorf("write %s: %w", p.name, err)
			}
			if err := refuse(&r, bad.error); err != nil {
				return 0, err
			}
			continue
		}
		p.records++
		kept++
	}
	for _, p := range k.parts {
		if err := p.keep(ctx); err != nil {
			return 0, err
		}
	}
	return kept, nil
}

// keeping is the state of one call of Keep.
type keeping struct {
	*Archive
	object sink.Object
	form   form
	parts  []*part
}

// part is a file that is being written for one generation and one version of the pipeline. A
// generation normally has one version. It has several if another partition of the input counts the
// generations differently.
type part struct {
	generation int
	version    int // index in form.Versions
	name       string
	draft      draft
	sum        *summed
	rows       rowWriter
	records    int
}

// part returns the part for a record.
func (k *keeping) part(ctx context.Context, r *stream.Record) (*part, error) {
	digest, generation := writtenBy(r)
	version := k.form.version(digest)
	first := true
	for _, p := range k.parts {
		if p.generation == generation {
			if p.version == version {
				return p, nil
			}
			first = false
		}
	}
	if len(k.parts) == partsMax {
		return nil, &sink.Split{At: r.Offset}
	}
	p := &part{generation: generation, version: version, name: k.name(generation)}
	if !first {
		p.name += "." + k.form.Versions[version].Digest[:min(8, len(k.form.Versions[version].Digest))]
	}
	p.name += k.form.ending()
	var err error
	if p.draft, err = k.place.begin(ctx, p.name); err != nil {
		return nil, fmt.Errorf("begin %s: %w", p.name, err)
	}
	k.parts = append(k.parts, p)
	p.sum = &summed{Hash: sha256.New(), to: p.draft}
	if p.rows, err = k.form.rows(p.sum, version); err != nil {
		return nil, fmt.Errorf("begin %s: %w", p.name, err)
	}
	return p, nil
}

// name returns the name of a file without its ending.
func (k *keeping) name(generation int) string {
	o := &k.object
	return fmt.Sprintf("%s/generation-%d/partition-%d/%020d-%020d", o.Group, generation, o.Partition.Index, o.From, o.To)
}

// keep makes the file visible. Without records there is no file.
func (p *part) keep(ctx context.Context) error {
	if p.records == 0 {
		return nil
	}
	if err := p.rows.close(); err != nil {
		return fmt.Errorf("write %s: %w", p.name, err)
	}
	if err := p.draft.keep(ctx, [sha256.Size]byte(p.sum.Sum(nil))); err != nil {
		return fmt.Errorf("keep %s: %w", p.name, err)
	}
	return nil
}

func (k *keeping) drop() {
	for _, p := range k.parts {
		p.draft.drop()
	}
}

// writtenBy returns the digest and the generation of the pipeline that wrote a record; "" and 0 if
// no pipeline did.
func writtenBy(r *stream.Record) (digest string, generation int) {
	fields := strings.Fields(header.Get(r, header.Pipeline))
	if len(fields) != 3 {
		return "", 0
	}
	generation, err := strconv.Atoi(fields[2])
	if err != nil || generation < 0 {
		return "", 0
	}
	return strings.TrimPrefix(fields[1], "sha256:"), generation
}
