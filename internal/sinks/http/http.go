// Package http delivers records to a service over HTTP: one request for each record, with the value
// as body and the id as Idempotency-Key.
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

// Options configures a Sink. URL is required.
type Options struct {
	URL         string      // http or https, with the path to call
	Method      string      // POST, PUT or PATCH; "" is POST
	Headers     http.Header // sent with every request, in addition to the sink's own; the default Content-Type is application/json
	Token       string      // for the header Authorization: Bearer; "" is none
	TokenFile   string      // a file with the token, read for each request; "" is none
	Connections int         // idle connections to keep; 0 is 16
}

// The sink's own header, and the maximum length of its value.
const (
	keyHeader = "Idempotency-Key"
	keyMax    = 255 // maximum length of an id that is sent unchanged
)

var (
	methods = []string{"", http.MethodPost, http.MethodPut, http.MethodPatch}
	own     = []string{keyHeader, "Content-Length", "Host", "Transfer-Encoding"}

	headerName = regexp.MustCompile(`^[0-9A-Za-z!#$%&'*+.^_|~-]+$`)
)

// Validate returns all errors in the options, joined.
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
		fail("token and token_file exclude each other: remove one")
	}
	if o.Connections < 0 {
		fail("%d connections: use 1 or more", o.Connections)
	}
	return errors.Join(errs...)
}

// Sink calls a service for each record. It is safe for concurrent use. Create one with New.
//
// A status from 200 to 299 means that the service accepted the record. 400, 413, 415 and 422 mean
// that the record is invalid; it becomes a dead letter. Every other status is a failure of the
// service, including a rejected key, an unknown path and a redirect: no other record would succeed
// either.
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

// Close closes the idle connections.
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
		return nil // an error of reading the body does not matter
	}
	if err != nil {
		said = append(said, fmt.Sprintf(" (%v)", err)...)
	}
	return failure(s.options.Method, response, said)
}

const (
	bodyMax  = 64 << 10 // how much of the response is read, so that the connection can be reused
	shownMax = 300      // how much of the response an error shows
	restMax  = time.Hour
)

// request returns the request for one record.
func (s *Sink) request(ctx context.Context, id string, r *stream.Record) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, s.options.Method, s.options.URL, bytes.NewReader(r.Value))
	if err != nil {
		return nil, err
	}
	// With GetBody the client would resend failed requests by itself, and the service would get
	// uncounted calls.
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

// Key returns the Idempotency-Key for an id: the id, or its SHA-256 if it is empty, longer than 255
// characters or not printable ASCII.
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

// shownLocation returns the target of a redirect, for messages.
func shownLocation(response *http.Response, to string) string {
	u, err := response.Request.URL.Parse(to)
	if err != nil {
		return "a URL that is not valid"
	}
	return httpclient.ShownOrigin(u)
}

// failure returns the error for a response that is not a success.
func failure(method string, response *http.Response, said []byte) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said[:min(len(said), shownMax)]), "")), " ")
	err := fmt.Errorf("%s %s: %s", method, httpclient.ShownOrigin(response.Request.URL), response.Status)
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 && to != "" {
		err = fmt.Errorf("%w: it is redirected to %s: set the sink's url to that address", err, shownLocation(response, to))
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
