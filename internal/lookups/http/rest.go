// Package http finds rows by HTTP: a GET for each key, or one POST for many keys.
package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/lookup"
)

// Options configures a Source.
type Options struct {
	// If URL contains {key} in its path or query, the source sends a GET for each key. Status 200
	// with a JSON object is the row; 204, 404 and 410 mean that there is no row. Without {key}, the
	// source sends a POST with {"keys": ["a", "b"]}. The response is an object of rows by key; null
	// or a missing entry means that there is no row.
	URL        string
	Bearer     string            // a token; "" is none
	BearerFile string            // a file with the token, read again for each request; "" is none
	Headers    map[string]string // headers of each request
	BytesMax   int64             // maximum size of a response; 0 is 1 MiB for one key, 16 MiB for many
	Client     *http.Client      // nil is a client of its own that follows no redirects
}

const hole = "{key}"

// Source is a lookup.Source that uses HTTP.
type Source struct {
	options       Options
	before, after string // URL before and after {key}
	query         bool   // {key} is in the query
}

var _ lookup.Source = (*Source)(nil)

// New returns a source. It sends no request yet.
func New(o Options) (*Source, error) {
	before, after, one := strings.Cut(o.URL, hole)
	to, err := url.Parse(before + after)
	switch {
	case err != nil:
		return nil, errors.New("look up by HTTP: the URL is not valid: use https://HOST/PATH")
	case to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return nil, fmt.Errorf("look up by HTTP: %q is not a valid URL: use http://HOST/PATH or https://HOST/PATH", httpclient.ShownText(o.URL))
	case strings.Contains(after, hole):
		return nil, fmt.Errorf("look up by HTTP: %q has %s twice", httpclient.ShownText(o.URL), hole)
	case to.User != nil:
		return nil, errors.New("look up by HTTP: a password has no place in a URL, which errors would show: use a token or a header")
	case o.Bearer != "" && o.BearerFile != "":
		return nil, errors.New("look up by HTTP: token and token_file exclude each other: remove one")
	}
	if o.Client == nil {
		o.Client = httpclient.NoRedirects(&http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, MaxResponseHeaderBytes: 64 << 10})
	}
	if o.BytesMax == 0 {
		if o.BytesMax = 16 << 20; one {
			o.BytesMax = 1 << 20
		}
	}
	s := &Source{options: o, before: before, after: after, query: strings.Contains(before, "?")}
	if !one {
		s.before = ""
	}
	return s, nil
}

// Single reports whether each request has one key. A Finder then makes one call for each key.
func (s *Source) Single() bool { return s.before != "" }

// Close closes idle connections.
func (s *Source) Close() { s.options.Client.CloseIdleConnections() }

// Rows implements lookup.Source.
func (s *Source) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	if !s.Single() {
		return s.post(ctx, keys)
	}
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if rows[i], err = s.get(ctx, key); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (s *Source) get(ctx context.Context, key string) ([]byte, error) {
	escaped := url.PathEscape(key)
	if s.query {
		escaped = url.QueryEscape(key)
	}
	if escaped == "." || escaped == ".." || escaped == "" && !s.query {
		return nil, refuse("%q is not a part of a path", key)
	}
	body, status, err := s.do(ctx, http.MethodGet, s.before+escaped+s.after, nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNoContent, status == http.StatusNotFound, status == http.StatusGone:
		return nil, nil
	case status != http.StatusOK:
		return nil, wrong(status, body)
	case !json.Valid(body):
		return nil, refuse("the answer for key %.60q is not JSON: %s", key, clip(body))
	}
	return body, nil
}

func (s *Source) post(ctx context.Context, keys []string) ([][]byte, error) {
	asked, err := json.Marshal(map[string][]string{"keys": keys})
	if err != nil {
		return nil, refuse("%w", err)
	}
	body, status, err := s.do(ctx, http.MethodPost, s.options.URL, asked)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, wrong(status, body)
	}
	var byKey map[string]json.RawMessage
	if err := json.Unmarshal(body, &byKey); err != nil {
		return nil, &lookup.Error{Failed: true, Err: fmt.Errorf("the answer is not an object of rows by key: %w", err)}
	}
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		if row := byKey[key]; string(row) != "null" {
			rows[i] = row
		}
	}
	return rows, nil
}

// do returns the body and the status of a complete response.
func (s *Source) do(ctx context.Context, method, to string, body []byte) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, 0, refuse("%w", httpclient.Bare(err))
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range s.options.Headers {
		request.Header.Set(name, value)
	}
	token, err := httpclient.Bearer(s.options.Bearer, s.options.BearerFile)
	if err != nil {
		return nil, 0, &lookup.Error{Err: err}
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.options.Client.Do(request)
	if err != nil {
		return nil, 0, &lookup.Error{Err: fmt.Errorf("%s %s: %w", method, httpclient.ShownOrigin(request.URL), httpclient.Bare(err))}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, s.options.BytesMax+1))
	switch {
	case err != nil:
		return nil, 0, &lookup.Error{Err: fmt.Errorf("read the answer: %w", err)}
	case int64(len(answer)) > s.options.BytesMax:
		return nil, 0, refuse("the answer is larger than %d bytes", s.options.BytesMax)
	}
	return answer, response.StatusCode, nil
}

// wrong maps a status to an error. 400, 406, 413, 414 and 422 refuse the keys. Other statuses from
// 500 on, except 502, 503 and 504, are failures that the keys may have caused. Every other status
// is a problem of the service.
func wrong(status int, body []byte) error {
	e := &lookup.Error{Err: &statusError{status, clip(body)}}
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnprocessableEntity:
		e.Refused = true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		e.Failed = status >= 500
	}
	return e
}

// statusError is a response with an unexpected status.
type statusError struct {
	status int
	said   string
}

// Error returns the status and the response.
func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.status, http.StatusText(e.status), e.said)
}

func refuse(format string, args ...any) error {
	return &lookup.Error{Refused: true, Err: fmt.Errorf(format, args...)}
}

// clip shortens a response for an error message.
func clip(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), 200)]), "?")
}
