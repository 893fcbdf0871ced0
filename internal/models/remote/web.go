package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

const (
	metadataBytesMax = 4 << 20 // also bounds the text of a server's error
	detailMax        = 500     // characters of an error's text that are passed on
	afterMax         = 24 * time.Hour
)

// web is an HTTP client.
type web struct {
	client *http.Client
	secret secret
}

func newWeb(o *Options) web {
	transport := newTransport(o)
	transport.Proxy = http.ProxyFromEnvironment
	return web{httpclient.NoRedirects(transport), newSecret(o)}
}

// newTransport returns a pool of connections. It closes an idle connection before servers do
// (uvicorn after 5 s). It sends keepalives on a silent connection, because a host that vanished
// closes nothing.
func newTransport(o *Options) *http.Transport {
	var config *tls.Config
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	return &http.Transport{
		TLSClientConfig: config, MaxIdleConnsPerHost: callsMax, IdleConnTimeout: 4 * time.Second,
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: o.Timeout,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// secret is a token, or the file that contains it.
type secret struct {
	token, file string
	name        string // header for the bare token; "" means Authorization
}

func newSecret(o *Options) secret { return secret{o.Bearer, o.BearerFile, o.Header} }

// header returns the header with the token; name is "" if there is no token.
func (s *secret) header() (name, value string, err error) {
	token, err := httpclient.Bearer(s.token, s.file)
	switch {
	case err != nil:
		return "", "", &Error{Fault: Denied, Err: err}
	case s.file != "" && (token == "" || strings.ContainsAny(token, "\r\n")):
		return "", "", fault(Denied, "%s does not hold one line with a token", s.file)
	}
	if s.name != "" || token == "" {
		return s.name, token, nil
	}
	return "Authorization", "Bearer " + token, nil
}

func (w *web) close() { w.client.CloseIdleConnections() }

// do sends a request and returns the body of a successful answer.
func (w *web) do(request *http.Request, bytesMax int64) ([]byte, http.Header, error) {
	response, err := w.send(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := readAll(response.Body, bytesMax)
	return body, response.Header, err
}

// post sends JSON and returns the body of a successful answer.
func (w *web) post(ctx context.Context, to string, body any, bytesMax int64) ([]byte, error) {
	request, err := newPost(ctx, to, body)
	if err != nil {
		return nil, err
	}
	answer, _, err := w.do(request, bytesMax)
	return answer, err
}

func newPost(ctx context.Context, to string, body any) (*http.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{Fault: Refused, Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return nil, &Error{Fault: Failed, Err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	name(request, data)
	return request, nil
}

// reach checks that a server can be reached and accepts the credentials. A server that does not
// know the call can be reached.
func (w *web) reach(ctx context.Context, method, to string) error {
	known, err := w.knows(ctx, method, to)
	var failed *Error
	if !known || errors.As(err, &failed) && failed.status == http.StatusBadRequest {
		return nil
	}
	return err
}

// knows makes a call without a body. known is false if the server does not know the call.
func (w *web) knows(ctx context.Context, method, to string) (known bool, err error) {
	request, err := http.NewRequestWithContext(ctx, method, to, nil)
	if err != nil {
		return true, &Error{Fault: Failed, Err: err}
	}
	response, err := w.send(request)
	if err == nil {
		return true, response.Body.Close()
	}
	var failed *Error
	return !errors.As(err, &failed) || failed.status != http.StatusNotFound && failed.status != http.StatusMethodNotAllowed && failed.status != http.StatusNotImplemented, err
}

// send sends a request and returns a successful answer. The caller must close its body.
func (w *web) send(request *http.Request) (*http.Response, error) {
	request.Header.Set("User-Agent", "afterbay")
	name, token, err := w.secret.header()
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set(name, token)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, metadataBytesMax))
	return nil, statusFault(response.StatusCode, "HTTP status "+response.Status+": "+refusal(said), response.Header.Get("Retry-After"))
}

// refusal returns the server's error message: {"error": "..."} of the Open Inference Protocol,
// {"error": {"message": "..."}} of OpenAI, or the body.
func refusal(body []byte) string {
	var said struct{ Error json.RawMessage }
	var text string
	var detailed struct{ Message string }
	switch {
	case json.Unmarshal(body, &said) != nil:
	case json.Unmarshal(said.Error, &text) == nil && text != "":
		return text
	case json.Unmarshal(said.Error, &detailed) == nil && detailed.Message != "":
		return detailed.Message
	}
	return string(body)
}

// readAll reads a body of at most max bytes.
func readAll(body io.Reader, max int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, max+1))
	switch {
	case err != nil:
		return nil, fault(Unreachable, "the answer ended after %d bytes: %w", len(data), err)
	case int64(len(data)) > max:
		return nil, fault(Malformed, "an answer of more than %d bytes", max)
	}
	return data, nil
}

func unreachable(err error) error {
	var op *net.OpError
	return &Error{Fault: Unreachable, Err: httpclient.Bare(err), outage: errors.As(err, &op) && op.Op == "dial"} // Bare removes the URL, which the message already has
}

// statusFault returns the error of an HTTP status. after is the server's value for the delay before
// the next call.
func statusFault(status int, detail, after string) error {
	kind := Failed
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		kind = Refused
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		kind = Late
	case http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		kind = Unreachable
	default:
		if status < 500 {
			kind = Denied
		}
	}
	return &Error{Fault: kind, Err: errors.New(brief(detail)), After: httpclient.RetryAfter(after, time.Now(), afterMax), status: status,
		large: status == http.StatusRequestEntityTooLarge, busy: status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable,
		outage: status == http.StatusUnauthorized}
}

// brief returns a server's text on one line. It cuts the middle of a long text, because the message
// of a stack trace is at its end.
func brief(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if characters := []rune(text); len(characters) > detailMax {
		text = string(characters[:detailMax/4]) + " ... " + string(characters[len(characters)-detailMax*3/4:])
	}
	return text
}
