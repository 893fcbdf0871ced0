package fetch

import (
	"context"
	"errors"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/internal/sys/s3"
)

// source is the place of a URL's content.
type source struct {
	shown string // the URL for messages, without possible secrets
	place string // the unit for counting faults; "" is this machine
	open  func(ctx context.Context, r *receiver) error
}

const shownMax = 300

// parse returns the source of a URL, or an error if the URL must not be fetched.
func (f *Fetcher) parse(text string) (source, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch strings.ToLower(scheme) {
	case "file":
		return f.parseFile(text)
	case "s3":
		return f.parseS3(rest)
	case "http", "https":
		return f.parseHTTP(text)
	}
	return source{}, refuse("%q is not a valid URL: use file://, s3:// or https://", httpclient.ShownText(text))
}

func (f *Fetcher) parseFile(text string) (source, error) {
	to, err := url.Parse(text)
	switch {
	case err != nil || to.Host != "" && to.Host != "localhost" || !strings.HasPrefix(to.Path, "/") || to.RawQuery != "":
		return source{}, refuse("%q is not a valid URL: use file:///FOLDER/NAME", httpclient.ShownText(text))
	case f.options.Root == "":
		return source{}, refuse("%s: fetching files is not allowed: name the folder of files in content.root", httpclient.ShownText(text))
	}
	inside, err := filepath.Rel(f.options.Root, filepath.FromSlash(to.Path))
	if err != nil || !filepath.IsLocal(inside) {
		return source{}, refuse("%s: it is outside of %s", httpclient.ShownText(text), f.options.Root)
	}
	shown := "file://" + to.Path
	return source{shown: shown, open: func(_ context.Context, r *receiver) error { return f.file(shown, inside, r) }}, nil
}

// folder opens the folder of files.
func (f *Fetcher) folder() (*os.Root, error) {
	f.root.Lock()
	defer f.root.Unlock()
	if f.files == nil {
		var err error
		if f.files, err = os.OpenRoot(f.options.Root); err != nil {
			return nil, away("open the folder of files: %w", err)
		}
	}
	return f.files, nil
}

// file reads a file. The folder is an os.Root, so links cannot lead out of it.
func (f *Fetcher) file(shown, name string, r *receiver) error {
	root, err := f.folder()
	if err != nil {
		return err
	}
	// Opening a pipe or another special file must not block.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return missing("%s: %w", shown, cause(err))
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ETIMEDOUT):
		return away("%s: %w", shown, cause(err))
	case err != nil: // including paths that lead outside
		return refuse("%s: %w", shown, cause(err))
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return away("%s: %w", shown, cause(err))
	case !info.Mode().IsRegular():
		return refuse("%s: it is not a file", shown)
	}
	return r.take(shown, file, info.Size(), "")
}

// cause returns a file system error without its path, which the caller adds.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func (f *Fetcher) parseS3(rest string) (source, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	shown := "s3://" + bucket + "/" + key
	shown = shown[:min(len(shown), shownMax)]
	switch {
	case !strings.HasPrefix(rest, "//") || bucket == "" || key == "":
		return source{}, refuse("%q is not a valid URL: use s3://BUCKET/KEY", shown)
	case !slices.Contains(f.options.Buckets, "*") && !slices.Contains(f.options.Buckets, bucket):
		return source{}, refuse("%s: content.buckets does not name the bucket", shown)
	case strings.ContainsFunc(bucket, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
	}) || strings.Trim(bucket, ".") == "":
		return source{}, refuse("%s: %q is not a name of a bucket", shown, bucket)
	}
	if err := s3.CheckKey(key); err != nil {
		return source{}, refuse("%s: %v", shown, err)
	}
	return source{shown: shown, place: "s3:" + bucket, open: func(ctx context.Context, r *receiver) error { return f.object(ctx, shown, bucket, key, r) }}, nil
}

// object reads an S3 object.
func (f *Fetcher) object(ctx context.Context, shown, bucket, key string, r *receiver) error {
	response, err := f.store.Do(ctx, http.MethodGet, bucket, key, nil, nil)
	var said *s3.Error
	switch {
	case errors.As(err, &said) && said.OfAccount():
		return away("%s: %w", shown, err)
	case errors.As(err, &said):
		return ofStatus(said.Status, "%s: %w", shown, err)
	case err != nil:
		return away("%s: %w", shown, httpclient.Bare(err))
	}
	defer response.Body.Close()
	return r.take(shown, response.Body, response.ContentLength, mediaType(response))
}

func (f *Fetcher) parseHTTP(text string) (source, error) {
	to, err := url.Parse(text)
	if err != nil || to.Hostname() == "" {
		return source{}, refuse("%q is not a valid URL: use https://HOST/PATH", httpclient.ShownText(text))
	}
	shown := httpclient.Shown(to)
	if err := f.allowed(to); err != nil {
		return source{}, refuse("%s: %w", shown, err)
	}
	return source{shown: shown, place: strings.ToLower(to.Scheme + "://" + to.Host), open: func(ctx context.Context, r *receiver) error { return f.get(ctx, shown, to, r) }}, nil
}

// get reads an HTTP resource.
func (f *Fetcher) get(ctx context.Context, shown string, to *url.URL, r *receiver) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return refuse("%s: %w", shown, err)
	}
	response, err := f.client.Do(request)
	var unknown *net.DNSError
	var guarded *guardError
	switch {
	case errors.As(err, &guarded):
		return refuse("%s: %w", shown, guarded)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return missing("%s: no such host", shown)
	case err != nil:
		return away("%s: %w", shown, httpclient.Bare(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return ofStatus(response.StatusCode, "%s: %d %s", shown, response.StatusCode, http.StatusText(response.StatusCode))
	}
	return r.take(shown, response.Body, response.ContentLength, mediaType(response))
}

// ofStatus maps an HTTP status to an error. Overload, server errors and authentication errors are
// blamed on the server; other errors are blamed on the row.
func ofStatus(status int, format string, args ...any) error {
	switch {
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly,
		status == http.StatusUnauthorized, status == http.StatusProxyAuthRequired:
		return away(format, args...)
	case status >= 300 && status < 400: // if redirects are not followed, for example for a bucket in another region
		return away(format, args...)
	}
	return missing(format, args...)
}

// mediaType returns the media type in a response's headers, or "".
func mediaType(response *http.Response) string {
	told, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || len(told) > 100 {
		return ""
	}
	return told
}
