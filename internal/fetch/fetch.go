// Package fetch fetches the content of URLs: files, S3 objects and HTTP resources. Size and time
// are limited. From then on the content is identified by its hash. The content of a URL can change,
// so the caller must record the hash with its decision. When that content is read again, the result
// is the content with that hash, or an error.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/model"
)

// MaxBytes is the default maximum size of content.
const MaxBytes = 10 << 20

// Options says what may be fetched, and limits the cache. The zero value allows only HTTP from
// public addresses.
type Options struct {
	Root     string         // folder of files; "" disables files
	Hosts    []string       // allowed HTTP hosts: names, or *.example.com for all names below it; nil allows any
	Private  []netip.Prefix // private networks that are allowed
	Plain    bool           // also allow http, without encryption
	Buckets  []string       // allowed S3 buckets; * allows any; nil allows none
	S3       s3.Options     // without the client
	CacheDir string         // cache folder; "" caches in memory
	CacheMax int64          // maximum size of the cache; 0 is 256 MiB
	Breaker  control.BreakerOptions
	Now      func() time.Time // nil is time.Now
}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	if o.Root != "" && !filepath.IsAbs(o.Root) {
		errs = append(errs, fmt.Errorf("root %q is not absolute: the paths of file URLs are", o.Root))
	}
	for _, host := range o.Hosts {
		if name := strings.TrimPrefix(host, "*."); name == "" || strings.ContainsAny(name, "*/:@ ") {
			errs = append(errs, fmt.Errorf("host %q: write a name as files.example.com, or *.example.com for all below it", host))
		}
	}
	for _, bucket := range o.Buckets {
		if bucket == "" || strings.ContainsAny(bucket, "/ ") {
			errs = append(errs, fmt.Errorf("bucket %q: write its name, or * for any", bucket))
		}
	}
	if o.CacheMax < 0 {
		errs = append(errs, fmt.Errorf("a cache of %d bytes: use 0 for the default, or more", o.CacheMax))
	}
	_, err := o.Breaker.Resolved()
	return errors.Join(append(errs, err)...)
}

// Content describes fetched content.
type Content struct {
	Sum  string // SHA-256, 64 hex digits
	Size int64  // bytes
	Type string // media type: as the source says, or guessed from the first bytes
}

// Stats holds the counters of a Fetcher.
type Stats struct {
	Objects   uint64 `json:"contents"`            // contents fetched completely
	Bytes     uint64 `json:"content_bytes"`       // bytes fetched
	Faults    uint64 `json:"faults"`              // fetches that failed because of a place
	Unfetched uint64 `json:"unfetched"`           // missing, refused or too large
	Again     uint64 `json:"repeated"`            // contents fetched again because they were not cached
	Changed   uint64 `json:"changed"`             // contents that differed when they were fetched again
	Forgotten uint64 `json:"places_evicted"`      // hosts and buckets that were forgotten because there are too many others
	Hits      uint64 `json:"cache_hits"`          // reads answered by the cache
	Misses    uint64 `json:"cache_misses"`        // reads that the cache could not answer
	Kept      int64  `json:"cache_bytes"`         // bytes in the cache
	Evicted   uint64 `json:"cache_evicted_bytes"` // bytes evicted from the cache
}

// Fetcher fetches and caches content. It is safe for concurrent use.
type Fetcher struct {
	options Options
	client  *http.Client
	store   *s3.Client
	places  *places
	cache   cache

	root  sync.Mutex // guards files
	files *os.Root

	objects, bytes, faults, unfetched, again, changed, forgotten, hits, misses atomic.Uint64
}

// New returns a fetcher. It opens and fetches nothing yet.
func New(o Options) (*Fetcher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Fetcher{options: o}
	f.places = newPlaces(o.Breaker, o.Now, &f.forgotten)
	f.client = newClient(&f.options)
	f.cache = newCache(o.CacheDir, cmp.Or(o.CacheMax, 256<<20))
	if o.Buckets != nil {
		// The operator configures the S3 server, so any address is allowed.
		o.S3.Client = httpclient.NoRedirects(&http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, DisableCompression: true, MaxResponseHeaderBytes: headerMax})
		var err error
		if f.store, err = s3.New(o.S3); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close closes idle connections and the folder of files.
func (f *Fetcher) Close() {
	f.client.CloseIdleConnections()
	if f.store != nil {
		f.store.Close()
	}
	f.root.Lock()
	defer f.root.Unlock()
	if f.files != nil {
		f.files.Close()
		f.files = nil
	}
}

// Stats returns the counters so far.
func (f *Fetcher) Stats() Stats {
	s := Stats{
		Objects: f.objects.Load(), Bytes: f.bytes.Load(), Faults: f.faults.Load(), Unfetched: f.unfetched.Load(),
		Again: f.again.Load(), Changed: f.changed.Load(), Forgotten: f.forgotten.Load(), Hits: f.hits.Load(), Misses: f.misses.Load(),
	}
	s.Kept, s.Evicted = f.cache.stats()
	return s
}

// Fetch fetches the concatenated content of URLs, at most bytesMax in total, and caches it.
// calling.BlameOf returns the cause of an error. Missing content may appear later; its error blames
// the row.
func (f *Fetcher) Fetch(ctx context.Context, urls []string, bytesMax int64) (Content, error) {
	return f.fetch(ctx, urls, bytesMax, f.places)
}

func (f *Fetcher) fetch(ctx context.Context, urls []string, bytesMax int64, at *places) (Content, error) {
	into, err := f.cache.begin()
	if err != nil {
		return Content{}, err
	}
	defer into.abort()
	content, err := f.bring(ctx, urls, bytesMax, at, into)
	if err != nil {
		if calling.BlameOf(err) == model.BlameSource {
			f.faults.Add(1)
		} else {
			f.unfetched.Add(1)
		}
		return Content{}, err
	}
	f.objects.Add(1)
	f.bytes.Add(uint64(content.Size))
	return content, f.cache.commit(into, content.Sum, content.Size)
}

// bring fetches the content of URLs and writes it to into.
func (f *Fetcher) bring(ctx context.Context, urls []string, bytesMax int64, at *places, into io.Writer) (Content, error) {
	if len(urls) == 0 {
		return Content{}, refuse("there is no URL")
	}
	r := receiver{sum: sha256.New(), into: into, left: bytesMax, most: bytesMax}
	for i, one := range urls {
		if err := f.one(ctx, one, at, &r); err != nil {
			if len(urls) > 1 {
				return Content{}, fmt.Errorf("%d of %d: %w", i+1, len(urls), err)
			}
			return Content{}, err
		}
	}
	return Content{Sum: hex.EncodeToString(r.sum.Sum(nil)), Size: r.most - r.left, Type: cmp.Or(r.told, "application/octet-stream")}, nil
}

// one passes the content of one URL to r.
func (f *Fetcher) one(ctx context.Context, text string, at *places, r *receiver) error {
	from, err := f.parse(text)
	if err != nil {
		return err
	}
	end, err := at.begin(from.place)
	if err != nil {
		return err
	}
	err = from.open(ctx, r)
	if cause := context.Cause(ctx); cause != nil && err != nil && calling.BlameOf(err) != model.BlameRows {
		err = away("%s: not received in time: %w", from.shown, cause)
	}
	end(ctx, err)
	return err
}

// Bytes returns the content of c from the cache. If the cache does not have it and refetch is true,
// Bytes fetches the URLs again; different content is an error. The caller must not modify the
// result.
func (f *Fetcher) Bytes(ctx context.Context, c Content, urls []string, refetch bool) ([]byte, error) {
	return f.content(ctx, c, urls, refetch, f.places)
}

func (f *Fetcher) content(ctx context.Context, c Content, urls []string, refetch bool, at *places) ([]byte, error) {
	if kept := f.cache.get(c.Sum); kept != nil {
		f.hits.Add(1)
		return kept, nil
	}
	f.misses.Add(1)
	if !refetch {
		return nil, away("content sha256:%s is not in the cache: it is fetched again", c.Sum)
	}
	into := &memory{}
	found, err := f.bring(ctx, urls, c.Size, at, into)
	switch {
	case errors.Is(err, errTooLarge):
		f.changed.Add(1)
		return nil, refuse("the content has changed: it had sha256:%s, %d bytes, and was larger when it was fetched again: %w", c.Sum, c.Size, err)
	case err != nil:
		return nil, fmt.Errorf("fetch content sha256:%s again: %w", c.Sum, err)
	case found.Sum != c.Sum:
		f.changed.Add(1)
		return nil, refuse("the content has changed: it had sha256:%s, %d bytes, and has sha256:%s, %d bytes, when it was fetched again", c.Sum, c.Size, found.Sum, found.Size)
	}
	f.again.Add(1)
	f.bytes.Add(uint64(found.Size))
	return into.Bytes(), f.cache.put(c.Sum, into.Bytes())
}

// receiver receives content.
type receiver struct {
	sum        hash.Hash
	into       io.Writer
	left, most int64
	told       string // type of the first content
}

const sniffBytes = 512

var errTooLarge = errors.New("too large")

// take reads content to its end. size is the expected size, -1 if unknown; told is the type, "" if
// unknown.
func (r *receiver) take(shown string, content io.Reader, size int64, told string) error {
	if size > r.left {
		return refuse("%s: %w: %d bytes, where at most %d are taken", shown, errTooLarge, r.most-r.left+size, r.most)
	}
	if room, ok := r.into.(*memory); ok && size > 0 {
		room.Grow(int(size))
	}
	looked := &head{}
	n, err := io.Copy(io.MultiWriter(r.sum, r.into, looked), io.LimitReader(content, r.left+1))
	var full *storing
	switch {
	case errors.As(err, &full):
		return full.err
	case n > r.left:
		return refuse("%s: %w: more than the %d bytes that are taken", shown, errTooLarge, r.most)
	case err != nil:
		return away("%s: ended after %d bytes: %w", shown, n, err)
	case size >= 0 && n < size:
		return away("%s: ended after %d of %d bytes", shown, n, size)
	}
	if r.left -= n; r.told == "" {
		if r.told = told; told == "" || told == "application/octet-stream" {
			r.told, _, _ = strings.Cut(http.DetectContentType(looked.bytes), ";")
		}
	}
	return nil
}

// head is a writer that keeps the first bytes.
type head struct{ bytes []byte }

func (h *head) Write(p []byte) (int, error) {
	h.bytes = append(h.bytes, p[:min(len(p), sniffBytes-len(h.bytes))]...)
	return len(p), nil
}
