package header

// Headers that events bring from outside, with their HTTP names. All records made from an event
// carry them: the trace context of the W3C, and the correlation id of the caller.
const (
	TraceParent = "traceparent"
	TraceState  = "tracestate"
	Correlation = "x-correlation-id"
)

// Context lists these headers.
var Context = [...]string{TraceParent, TraceState, Correlation}
