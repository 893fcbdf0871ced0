// Package otlp sends spans to an OpenTelemetry collector, by OTLP over HTTP with JSON. It does not
// use OpenTelemetry's library: the package sends only one kind of message, and the library brings
// many dependencies.
package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

// Options configure an Exporter. URL is required.
type Options struct {
	URL     string       // collector, such as http://localhost:4318; spans go to its path /v1/traces
	Headers http.Header  // added to every request, for example an API key
	Version string       // version of the process, for the resource
	Logger  *slog.Logger // nil discards all messages
}

const (
	waitingMax  = 16_384 // most spans to hold; further ones are dropped
	requestMax  = 2_048  // spans per request
	sendEvery   = time.Second
	sendTimeout = 5 * time.Second
)

// Validate returns an error if the options are not valid.
func (o Options) Validate() error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a valid URL: use http://HOST:4318", o.URL)
	}
	return nil
}

// Exporter collects and sends spans. It drops and counts the spans that a collector does not accept
// in time, so traces never delay events. It is safe for concurrent use.
type Exporter struct {
	options  Options
	endpoint string
	client   *http.Client
	full     chan struct{} // receives a value when there are enough spans for a request

	mu      sync.Mutex // guards the fields below
	waiting []observe.Span

	sent, lost atomic.Uint64
}

// New returns an exporter. It sends spans while its Run is active.
func New(o Options) (*Exporter, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	endpoint := strings.TrimRight(o.URL, "/")
	if !strings.HasSuffix(endpoint, "/v1/traces") {
		endpoint += "/v1/traces"
	}
	return &Exporter{options: o, endpoint: endpoint, client: &http.Client{Timeout: sendTimeout}, full: make(chan struct{}, 1)}, nil
}

// Add adds spans. The caller must not change them afterwards. Add does not block.
func (e *Exporter) Add(spans []observe.Span) {
	e.mu.Lock()
	room := min(len(spans), waitingMax-len(e.waiting))
	e.waiting = append(e.waiting, spans[:room]...)
	enough := len(e.waiting) >= requestMax
	e.mu.Unlock()
	e.lost.Add(uint64(len(spans) - room))
	if enough {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// Counts returns how many spans were sent, and how many were dropped because the collector did not
// accept them.
func (e *Exporter) Counts() (sent, lost uint64) { return e.sent.Load(), e.lost.Load() }

// Run sends spans until ctx is done, and then sends the remaining ones.
func (e *Exporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	defer e.client.CloseIdleConnections()
	failing := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		case <-e.full:
		}
		for spans := e.take(); len(spans) > 0; spans = e.take() {
			err := e.send(context.WithoutCancel(ctx), spans)
			if err == nil {
				e.sent.Add(uint64(len(spans)))
				failing = false
				continue
			}
			e.lost.Add(uint64(len(spans)))
			if !failing {
				e.options.Logger.Warn("traces are left out", "collector", e.endpoint, "reason", err)
			}
			if failing = true; ended {
				break // the collector is unreachable, so the remaining spans are not tried
			}
		}
	}
	return nil
}

func (e *Exporter) take() []observe.Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.waiting), requestMax)
	spans := e.waiting[:n:n]
	if e.waiting = e.waiting[n:]; len(e.waiting) == 0 {
		e.waiting = nil
	}
	return spans
}

// send makes one request with spans.
func (e *Exporter) send(ctx context.Context, spans []observe.Span) error {
	body, err := json.Marshal(e.request(spans))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range e.options.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, 64<<10))
	if reply.StatusCode/100 != 2 {
		return errors.Join(fmt.Errorf("%s: %s", reply.Status, bytes.TrimSpace(text[:min(len(text), 200)])), err)
	}
	return nil
}

// The types below are the JSON of the protocol.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Links      []link      `json:"links,omitempty"`
	Flags      int         `json:"flags"`
}

type link struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	Text   string `json:"stringValue,omitempty"`
	Number string `json:"intValue,omitempty"`
}

const (
	kindInternal = 1
	kindConsumer = 5
	flagSampled  = 1
)

func (e *Exporter) request(spans []observe.Span) request {
	list := make([]span, len(spans))
	for i := range spans {
		list[i] = newSpan(&spans[i])
	}
	of := resource{[]attribute{{"service.name", value{Text: "afterbay"}}}}
	if e.options.Version != "" {
		of.Attributes = append(of.Attributes, attribute{"service.version", value{Text: e.options.Version}})
	}
	return request{[]resourceSpans{{of, []scopeSpans{{scope{"github.com/afterbay/afterbay", e.options.Version}, list}}}}}
}

func newSpan(s *observe.Span) span {
	out := span{
		TraceID: hex.EncodeToString(s.Trace[:]), SpanID: hex.EncodeToString(s.Span[:]), Name: s.Name, Kind: kindInternal,
		Start: strconv.FormatInt(s.Start.UnixNano(), 10), End: strconv.FormatInt(s.End.UnixNano(), 10), Flags: flagSampled,
	}
	if s.Consumer {
		out.Kind = kindConsumer
	}
	if s.Parent != [8]byte{} {
		out.Parent = hex.EncodeToString(s.Parent[:])
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, link{hex.EncodeToString(l.Trace[:]), hex.EncodeToString(l.Span[:])})
	}
	for _, a := range s.Attributes {
		v := value{Text: a.Text}
		if a.Text == "" {
			v.Number = strconv.FormatInt(a.Number, 10)
		}
		out.Attributes = append(out.Attributes, attribute{a.Key, v})
	}
	return out
}
