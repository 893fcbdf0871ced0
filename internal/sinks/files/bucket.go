package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/internal/sys/s3"
)

// S3 configures the S3 server and the credentials. The zero value uses Amazon S3 and the
// credentials of the environment.
type S3 struct {
	Endpoint    string // a URL of a server with path-style buckets; "" is AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's endpoint of the region
	Region      string // "" is AWS_REGION, AWS_DEFAULT_REGION, or us-east-1
	Credentials string // a file in the format of ~/.aws/credentials; "" is AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, web identity, ~/.aws/credentials and ~/.aws/config, or the role of the container or machine
	Profile     string // profile in the file; "" is AWS_PROFILE, or default
}

// bucket is a place on an S3 server. Each object is one PUT request, which the server rejects if
// the name exists.
type bucket struct {
	store        *s3.Client
	name, prefix string
}

// connections is the number of idle connections to keep, as many as the default number of objects
// made at once.
const connections = 4

func newBucket(name, prefix string, o S3) (place, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connections
	to := httpclient.NoRedirects(transport)
	store, err := s3.New(s3.Options{Endpoint: o.Endpoint, Region: o.Region, Credentials: o.Credentials, Profile: o.Profile, Client: to})
	if err != nil {
		return nil, err
	}
	if err := s3.CheckKey(prefix); err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{store, name, prefix}, nil
}

func (b *bucket) close() { b.store.Close() }

// check implements place.
func (b *bucket) check(ctx context.Context) error {
	_, err := b.ask(ctx, http.MethodHead, "", nil, s3.Body{Sum: sha256.Sum256(nil)})
	var said *s3.Error
	if errors.As(err, &said) && said.Status == http.StatusNotFound {
		return fmt.Errorf("there is no bucket %s at %s: make it", b.name, b.store.Where(b.name, ""))
	}
	return err
}

// ask sends a request and returns the headers of the response.
func (b *bucket) ask(ctx context.Context, method, key string, headers http.Header, body s3.Body) (http.Header, error) {
	response, err := b.store.Send(ctx, method, b.name, key, headers, body)
	if err == nil {
		return response.Header, response.Body.Close()
	}
	return nil, fmt.Errorf("%s %s: %w", method, b.store.Where(b.name, key), httpclient.Bare(err))
}

// begin implements place. A draft is an unlinked temporary file.
func (b *bucket) begin(_ context.Context, name string) (draft, error) {
	file, err := os.CreateTemp("", "afterbay-*.tmp")
	if err != nil {
		return nil, err
	}
	return &objectDraft{bucket: b, key: b.prefix + name, file: file}, os.Remove(file.Name())
}

// objectDraft is a draft of an object in a bucket.
type objectDraft struct {
	bucket *bucket
	key    string
	file   *os.File
	size   int64
}

// Write implements io.Writer.
func (d *objectDraft) Write(b []byte) (int, error) {
	n, err := d.file.Write(b)
	d.size += int64(n)
	return n, err
}

// sumHeader holds a checksum: keep uses it to recognise its own objects.
const sumHeader = "X-Amz-Meta-Afterbay-Sha256"

// keep implements draft.
func (d *objectDraft) keep(ctx context.Context, sum [sha256.Size]byte) error {
	want := hex.EncodeToString(sum[:])
	headers := http.Header{"If-None-Match": {"*"}, sumHeader: {want}, "Content-Type": {mediaType(d.key)}}
	_, err := d.bucket.ask(ctx, http.MethodPut, d.key, headers, s3.Body{
		Open: func() io.Reader { return io.NewSectionReader(d.file, 0, d.size) }, Size: d.size, Sum: sum,
	})
	var said *s3.Error
	if !errors.As(err, &said) || said.Status != http.StatusPreconditionFailed {
		return err
	}
	there, err := d.bucket.ask(ctx, http.MethodHead, d.key, nil, s3.Body{Sum: sha256.Sum256(nil)})
	if err != nil {
		return err
	}
	if there.Get(sumHeader) != want {
		return &TakenError{d.bucket.store.Where(d.bucket.name, d.key)}
	}
	return nil
}

func mediaType(name string) string {
	switch {
	case strings.HasSuffix(name, ".parquet"):
		return "application/vnd.apache.parquet"
	case strings.HasSuffix(name, ".gz"):
		return "application/gzip"
	case strings.HasSuffix(name, ".zst"):
		return "application/zstd"
	}
	return "application/x-ndjson"
}

// drop implements draft.
func (d *objectDraft) drop() { _ = d.file.Close() } // the file is deleted, so an error does not matter
