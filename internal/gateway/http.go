package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
)

const (
	bodyBytes   = 1 << 20 // maximum size of a request body
	readersMost = 16      // requests of a tenant that are read at the same time; others wait
	eventsMost  = 4096    // events of a request; the record of each takes more memory than its bytes
)

// check returns the token of a request, "" if it has none. It returns an error if the gateway must
// not serve the request.
func (g *Gateway) check(r *http.Request) (token string, err error) {
	if origin := r.Header.Get("Origin"); origin != "" && !g.allowed(origin) {
		g.metrics.Forbidden.Add(1)
		// The browser hides this answer from the page, so the reason is logged.
		g.options.Logger.Info("gateway: page refused: add its origin to origins", "origin", origin)
		return "", &refusal{http.StatusForbidden, "web pages of this origin may not connect", "add it to the gateway's origins"}
	}
	if query, err := url.ParseQuery(r.URL.RawQuery); err != nil || query.Has("token") || query.Has("access_token") {
		g.metrics.Forbidden.Add(1)
		return "", &refusal{http.StatusBadRequest, "a token in the URL appears in logs of proxies and servers", "send it as Authorization: Bearer, or in the first frame"}
	}
	return access.BearerToken(r), nil
}

func (g *Gateway) allowed(origin string) bool {
	return slices.Contains(g.options.Origins, "*") || slices.Contains(g.options.Origins, origin)
}

// caller returns the identity of the client that sent a request.
func (g *Gateway) caller(w http.ResponseWriter, r *http.Request) (Identity, error) {
	token, err := g.check(r)
	if err == nil && token == "" {
		g.metrics.Forbidden.Add(1)
		err = errNoToken
	}
	if err != nil {
		return Identity{}, err
	}
	return g.verify(r.Context(), token, correlationIn(w))
}

// sender returns the identity of the client that sent a request with a body.
func (g *Gateway) sender(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return Identity{}, &refusal{http.StatusUnsupportedMediaType, "the body is compressed", "send it uncompressed"}
	}
	return g.caller(w, r)
}

// refusal is an answer with an error status.
type refusal struct {
	status      int
	error, hint string
}

func (r *refusal) Error() string { return r.error }

// overQuota is the error of a tenant that has reached its limit.
type overQuota struct{ limit.Refusal }

func (*overQuota) Error() string { return "the tenant has reached its limit: try again later" }

// refuse answers a rejected request with the status and hint for err.
func (g *Gateway) refuse(w http.ResponseWriter, err error) {
	var r *refusal
	var quota *overQuota
	switch {
	case errors.As(err, &r):
	case errors.As(err, &quota):
		w.Header().Set("Retry-After", strconv.Itoa(int(quota.Wait/time.Second)+1))
		r = &refusal{status: http.StatusTooManyRequests, error: err.Error()}
	case errors.Is(err, errDraining), errors.Is(err, errFull), errors.Is(err, errLog), errors.Is(err, errNotTaken), errors.Is(err, ErrUnavailable):
		w.Header().Set("Retry-After", strconv.Itoa(1))
		r = &refusal{status: http.StatusServiceUnavailable, error: err.Error()}
	case errors.Is(err, errToken):
		w.Header().Set("WWW-Authenticate", "Bearer")
		r = &refusal{http.StatusUnauthorized, err.Error(), "get a new token"}
	case errors.Is(err, errNoToken):
		w.Header().Set("WWW-Authenticate", "Bearer")
		r = &refusal{http.StatusUnauthorized, err.Error(), "send it as Authorization: Bearer TOKEN"}
	default:
		g.options.Logger.Error("gateway: request", "error", err, "correlation", correlationIn(w))
		r = &refusal{status: http.StatusInternalServerError, error: "the gateway cannot serve the request", hint: "come again later"}
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusServiceUnavailable {
		w.Header().Set("Connection", "close") // a rejected client keeps no connection
	}
	ingest.WriteJSON(w, r.status, &ingest.Problem{Error: r.error, Hint: r.hint})
}

// unread returns the answer for a body that could not be read. fewer is the hint if the body is too
// large.
func unread(err error, fewer string) *refusal {
	var known *refusal
	if errors.As(err, &known) {
		return known
	}
	if why, ok := server.AsRefusal(err); ok {
		hint := why.Hint
		if why.Status == http.StatusRequestEntityTooLarge {
			hint = fewer
		}
		return &refusal{why.Status, why.Message, hint}
	}
	var large tooLarge
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		large = "one of its lines"
	case !errors.As(err, &large):
		return &refusal{http.StatusBadRequest, "the body cannot be read: " + err.Error(), "send it again"}
	}
	return &refusal{http.StatusRequestEntityTooLarge, large.Error(), fewer}
}

// tooLarge names the part of a body that exceeds its limit.
type tooLarge string

func (t tooLarge) Error() string { return "the body is too large: " + string(t) }

// writer buffers the frames of an answer.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encode  func(wire.Frame) ([]byte, error)
	buffer  bytes.Buffer
}

func newWriter(w http.ResponseWriter, encode func(wire.Frame) ([]byte, error)) *writer {
	return &writer{w: w, control: http.NewResponseController(w), encode: encode}
}

func (o *writer) event(frame wire.Frame) {
	message, err := o.encode(frame)
	if err != nil {
		return // the payload is not JSON; a sequencer never writes such a payload
	}
	if cursor := cursorOf(frame); cursor != "" {
		o.buffer.WriteString("id: " + cursor + "\n")
	}
	o.buffer.WriteString("event: " + frame.Name() + "\ndata: ")
	o.buffer.Write(message) // Go's JSON has no line breaks
	o.buffer.WriteString("\n\n")
}

func (o *writer) lines(frames []wire.Frame) {
	for _, frame := range frames {
		if message, err := o.encode(frame); err == nil {
			o.buffer.Write(append(message, '\n'))
		}
	}
}

// flush sends the buffer. The client must read it within writeTimeout.
func (o *writer) flush() error {
	if err := o.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := o.w.Write(o.buffer.Bytes()); err != nil {
		return err
	}
	o.buffer.Reset()
	if err := o.control.Flush(); err != nil {
		return err
	}
	return o.control.SetWriteDeadline(time.Time{}) // over HTTP/2 an expired deadline ends the stream even if nothing is being written
}

func split(list string) []string {
	items := strings.Split(list, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
