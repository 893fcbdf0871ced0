// Package otlp sends spans to a collector by OpenTelemetry's protocol, OTLP over
// HTTP with JSON. It is written out rather than taken from a library: what is sent
// is one shape, and half of OpenTelemetry's packages would come with it.
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

// Options of an Exporter. URL is needed.
type Options struct {
	URL     string       // of a collector, such as http://localhost:4318; spans go to its /v1/traces
	Headers http.Header  // of every request, such as an API key
	Version string       // of the process, in its resource
	Logger  *slog.Logger // nil discards
}

const (
	waitingMax  = 16_384 // spans that are held; more are left out
	requestMax  = 2_048  // spans of a request
	sendEvery   = time.Second
	sendTimeout = 5 * time.Second
)

// Validate returns why an exporter cannot have these options.
func (o Options) Validate() error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a valid URL: use http://HOST:4318", o.URL)
	}
	return nil
}

// Exporter gathers spans and sends them. What a collector does not take in time is
// left out and counted: traces never hold up events. It is safe for concurrent use.
type Exporter struct {
	options  Options
	endpoint string
	client   *http.Client
	full     chan struct{} // there is enough for a request

	mu      sync.Mutex // guards what follows
	waiting []observe.Span

	sent, lost atomic.Uint64
}

// New returns an exporter, which sends while it is Run.
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

// Add takes spans, which must not be changed after. It does not block.
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

// Counts returns how many spans were sent, and how many were left out because the
// collector did not take them.
func (e *Exporter) Counts() (sent, lost uint64) { return e.sent.Load(), e.lost.Load() }

// Run sends spans until ctx is done, and then what is left.
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
				break // one that is not there is not asked for all that is left
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

// send makes one request.
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

// What follows is the protocol's JSON.

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
