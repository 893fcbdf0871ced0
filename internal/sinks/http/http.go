// Package http hands records to a service over HTTP: one request each, with
// the record's value as its body and its id as its Idempotency-Key.
package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Options of a Sink. URL is needed.
type Options struct {
	URL         string      // http or https, with the path that is called
	Method      string      // POST, PUT or PATCH; "" is POST
	Headers     http.Header // of every request, beside those of the sink; Content-Type is application/json where it is not among them
	Token       string      // of the header Authorization: Bearer; "" is none
	TokenFile   string      // a file of it, read at each request; "" is none
	Connections int         // kept open; 0 is 16
}

// The sink's own headers, and those that a record's headers go on as.
const (
	keyHeader = "Idempotency-Key"
	keyMax    = 255 // characters of an id that is sent as it is
)

var (
	methods = []string{"", http.MethodPost, http.MethodPut, http.MethodPatch}
	own     = []string{keyHeader, "Content-Length", "Host", "Transfer-Encoding"}

	headerName = regexp.MustCompile(`^[0-9A-Za-z!#$%&'*+.^_|~-]+$`)
)

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch u, err := url.Parse(o.URL); {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		fail("the URL is not valid: use http://HOST/PATH or https://HOST/PATH")
	case u.User != nil:
		fail("the URL has a user and password, which errors would show: use a token or a header")
	}
	if !slices.Contains(methods, o.Method) {
		fail("method %q: use POST, PUT or PATCH", o.Method)
	}
	for name, values := range o.Headers {
		switch {
		case slices.Contains(own, http.CanonicalHeaderKey(name)):
			fail("the header %s is the sink's own", name)
		case !headerName.MatchString(name):
			fail("%q is not the name of a header", name)
		case slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }):
			fail("the header %s has lines: its value is one", name)
		}
	}
	if o.Token != "" && o.TokenFile != "" {
		fail("there are a token and a file of one: use either")
	}
	if o.Connections < 0 {
		fail("%d connections: use 1 or more", o.Connections)
	}
	return errors.Join(errs...)
}

// Sink calls a service for each record. It is safe for concurrent use. Make one
// with New.
//
// A status of 200 to 299 says that the service took the record; 400, 413, 415 and
// 422 that the record is wrong, and becomes a dead letter. All else is about the
// service: a key that is not accepted, a path that is not there and a redirection
// too, which no record can help.
type Sink struct {
	options Options
	client  *http.Client
}

var _ sink.Sink = (*Sink)(nil)

// New returns a sink. It opens no connection.
func New(o Options) (*Sink, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Method == "" {
		o.Method = http.MethodPost
	}
	if o.Connections == 0 {
		o.Connections = 16
	}
	headers := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"afterbay"}}
	for name, values := range o.Headers {
		headers[http.CanonicalHeaderKey(name)] = values
	}
	o.Headers = headers
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = o.Connections, o.Connections
	return &Sink{options: o, client: httpclient.NoRedirects(transport)}, nil
}

// Close closes the connections that no call uses.
func (s *Sink) Close() { s.client.CloseIdleConnections() }

// Deliver implements sink.Sink.
func (s *Sink) Deliver(ctx context.Context, id string, r *stream.Record) error {
	request, err := s.request(ctx, id, r)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.options.Method, httpclient.ShownOrigin(request.URL), httpclient.Bare(err))
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, bodyMax))
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return nil // whatever becomes of a body that nobody reads
	}
	if err != nil {
		said = append(said, fmt.Sprintf(" (%v)", err)...)
	}
	return failure(s.options.Method, response, said)
}

const (
	bodyMax  = 64 << 10 // of an answer that is read, so that its connection can be used again
	shownMax = 300      // of it in an error
	restMax  = time.Hour
)

// request is that of one record.
func (s *Sink) request(ctx context.Context, id string, r *stream.Record) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, s.options.Method, s.options.URL, bytes.NewReader(r.Value))
	if err != nil {
		return nil, err
	}
	// With it the client would send what failed again by itself, and the service
	// would be called more often than is counted.
	request.GetBody = nil
	request.Header = s.options.Headers.Clone()
	token, err := httpclient.Bearer(s.options.Token, s.options.TokenFile)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for _, name := range header.Context {
		if value := header.Get(r, name); value != "" && printable(value) {
			request.Header.Set(name, value)
		}
	}
	request.Header.Set(keyHeader, Key(id))
	return request, nil
}

// Key returns what stands in Idempotency-Key for an id: the id, or its SHA-256
// where it is empty, longer than 255 characters or not printable ASCII.
func Key(id string) string {
	if id != "" && len(id) <= keyMax && printable(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// shownLocation is where a redirection leads to, for messages.
func shownLocation(response *http.Response, to string) string {
	u, err := response.Request.URL.Parse(to)
	if err != nil {
		return "a URL that is not valid"
	}
	return httpclient.ShownOrigin(u)
}

// failure is the error of an answer that does not say that the record was taken.
func failure(method string, response *http.Response, said []byte) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said[:min(len(said), shownMax)]), "")), " ")
	err := fmt.Errorf("%s %s: %s", method, httpclient.ShownOrigin(response.Request.URL), response.Status)
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 && to != "" {
		err = fmt.Errorf("%w: it is redirected to %s: the sink's url has to be where that leads", err, shownLocation(response, to))
	} else if text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch response.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &sink.Refused{Err: err}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after := httpclient.RetryAfter(response.Header.Get("Retry-After"), time.Now(), restMax); after > 0 {
			return &sink.Later{After: after, Err: err}
		}
	}
	return err
}
