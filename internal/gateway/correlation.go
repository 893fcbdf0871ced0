package gateway

import (
	"cmp"
	"crypto/rand"
	"net/http"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

// correlation is the id of a request, by which what is made of its events, and
// what is logged of it, is found: it is in the answer, and in the events that
// have none of their own. So is its trace.
type correlation struct {
	given string // by the client; "" where it gave none
	made  string // of the request's trace, or a random one; "" where there is no request
	trace string // the request's traceparent; "" where it has none, or a wrong one: the W3C has those passed over
}

// correlate has every answer of next say the correlation id of its request, and
// refuses a request whose id is none.
func (g *Gateway) correlate(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get(header.Correlation)
		if given == "" || wire.ValidCorrelation(given) {
			w.Header().Set(header.Correlation, cmp.Or(given, traceOf(r.Header.Get(header.TraceParent)), newCorrelation()))
			next(w, r)
			return
		}
		w.Header().Set(header.Correlation, newCorrelation())
		g.refuse(w, &refusal{http.StatusBadRequest, "the header X-Correlation-Id is too long, or not printable ASCII", "use at most 128 characters, or leave it out"})
	}
}

// correlationOf returns the id of a request that correlate has let through.
func correlationOf(w http.ResponseWriter, r *http.Request) correlation {
	c := correlation{given: r.Header.Get(header.Correlation), made: correlationIn(w)}
	if trace := r.Header.Get(header.TraceParent); len(trace) == wire.TraceParentBytes && traceOf(trace) != "" {
		c.trace = trace
	}
	return c
}

// correlationIn returns the id that correlate has given an answer, for the log.
func correlationIn(w http.ResponseWriter) string { return w.Header().Get(header.Correlation) }

func newCorrelation() string { return rand.Text() }

// traceOf returns the id of the trace that a traceparent is of; "" where it is
// none.
func traceOf(traceparent string) string {
	if _, ok := observe.ParseContext([]byte(traceparent)); !ok {
		return ""
	}
	return traceparent[3:35]
}

// apply gives an event the id of the first that has one: the event, its request,
// the event's trace. Otherwise it is made. An event without a trace is of that of its
// request.
func (c correlation) apply(event *wire.Event) {
	event.TraceParent = cmp.Or(event.TraceParent, c.trace)
	event.Correlation = cmp.Or(event.Correlation, c.given, traceOf(event.TraceParent), c.made)
	if event.Correlation == "" {
		event.Correlation = newCorrelation()
	}
}

// correlationsMost bounds the ids that a line of the log has.
const correlationsMost = 20

// correlationsOf returns the correlation ids of records, each once, for the log.
func correlationsOf(records []stream.Record) (ids []string) {
	for i := range records {
		if id := wire.Correlation(&records[i]); len(ids) < correlationsMost && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	}
	return ids
}
