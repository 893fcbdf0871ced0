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

// correlation is the correlation id of a request. It is in the answer, in log lines, and in those
// events of the request that have no id of their own. The request's trace is passed to its events
// in the same way.
type correlation struct {
	given string // set by the client; "" if absent
	made  string // trace id of the request, or a random id; "" if there is no request
	trace string // traceparent of the request; "" if absent or invalid, because the W3C specification says to ignore an invalid one
}

// correlate adds the correlation id of the request to every answer of next. It rejects a request
// with an invalid id.
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

// correlationOf returns the correlation of a request that passed correlate.
func correlationOf(w http.ResponseWriter, r *http.Request) correlation {
	c := correlation{given: r.Header.Get(header.Correlation), made: correlationIn(w)}
	if trace := r.Header.Get(header.TraceParent); len(trace) == wire.TraceParentBytes && traceOf(trace) != "" {
		c.trace = trace
	}
	return c
}

// correlationIn returns the id that correlate put into the answer, for log lines.
func correlationIn(w http.ResponseWriter) string { return w.Header().Get(header.Correlation) }

func newCorrelation() string { return rand.Text() }

// traceOf returns the trace id of a traceparent; "" if the traceparent is invalid.
func traceOf(traceparent string) string {
	if _, ok := observe.ParseContext([]byte(traceparent)); !ok {
		return ""
	}
	return traceparent[3:35]
}

// apply sets the correlation id and the trace of an event. The id is the first of: the event's own
// id, the id that the client gave the request, the event's trace id, and a new id. An event without
// a trace gets that of its request.
func (c correlation) apply(event *wire.Event) {
	event.TraceParent = cmp.Or(event.TraceParent, c.trace)
	event.Correlation = cmp.Or(event.Correlation, c.given, traceOf(event.TraceParent), c.made)
	if event.Correlation == "" {
		event.Correlation = newCorrelation()
	}
}

// correlationsMost is the maximum number of ids in one log line.
const correlationsMost = 20

// correlationsOf returns the correlation ids of records for the log. It leaves out an id that
// equals the one before it.
func correlationsOf(records []stream.Record) (ids []string) {
	for i := range records {
		if id := wire.Correlation(&records[i]); len(ids) < correlationsMost && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	}
	return ids
}
