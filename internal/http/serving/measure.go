package serving

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/afterbay/afterbay/internal/observe/metric"
)

// measures counts requests by call, model and code. The number of label values is bounded: calls
// are those of the table, and models those that exist.
type measures struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
}

var (
	requestsInfo = metric.NewInfo(metric.CounterType, "serve_requests", metric.None, "Requests by the call, the model that answers (none if there is no such model), and the code of HTTP or gRPC.", "call", "model", "code")
	requestInfo  = metric.NewInfo(metric.HistogramType, "serve_request", metric.Seconds, "Time from a request's header to the end of its reply: for a stream, its whole duration.", "call", "model")
	tokensInfo   = metric.NewInfo(metric.CounterType, "serve_tokens", metric.None, "Tokens of texts that were embedded or moderated: those of the model's tokenizer, or words if it has none.", "model")
)

func newMeasures() *measures {
	counter := func(i metric.Info) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: i.Name, Help: i.Help}, i.Labels)
	}
	return &measures{
		requests: counter(requestsInfo),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: requestInfo.Name, Help: requestInfo.Help,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, requestInfo.Labels),
		tokens: counter(tokensInfo),
	}
}

func (m *measures) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.tokens}
}

// asked holds the model that a request calls.
type asked struct{ model string }

type askedKey struct{}

// asks records the model that the request of ctx calls.
func asks(ctx context.Context, m *served) {
	if a, ok := ctx.Value(askedKey{}).(*asked); ok {
		a.model = m.pinned()
	}
}

// count counts a request that began at start.
func (m *measures) count(call, code string, a *asked, start time.Time) {
	if a.model == "" {
		a.model = "none"
	}
	m.requests.WithLabelValues(call, a.model, code).Inc()
	m.seconds.WithLabelValues(call, a.model).Observe(time.Since(start).Seconds())
}

// measured wraps a handler and counts its requests.
func (h *Handler) measured(call string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start, a, code := time.Now(), &asked{}, &coded{ResponseWriter: w, code: http.StatusOK}
		defer func() { h.measures.count(call, strconv.Itoa(code.code), a, start) }()
		next(code, r.WithContext(context.WithValue(r.Context(), askedKey{}, a)))
	}
}

// call counts a gRPC call, with gRPC codes.
func (m *measures) call(ctx context.Context, name string, do func(context.Context) error) error {
	start, a := time.Now(), &asked{}
	err := do(context.WithValue(ctx, askedKey{}, a))
	m.count(name, status.Code(err).String(), a, start)
	return err
}

// coded records the status code of a reply.
type coded struct {
	http.ResponseWriter
	code  int
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (c *coded) WriteHeader(code int) {
	if !c.begun && code >= http.StatusOK {
		c.code, c.begun = code, true
	}
	c.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (c *coded) Write(p []byte) (int, error) {
	c.begun = true
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *coded) Unwrap() http.ResponseWriter { return c.ResponseWriter }
