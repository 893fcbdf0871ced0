package header

// Headers that events come with from outside, as HTTP has them, and that go on
// with what is made of them: the trace context of the W3C, and an id of whoever
// asked.
const (
	TraceParent = "traceparent"
	TraceState  = "tracestate"
	Correlation = "x-correlation-id"
)

// Context lists them.
var Context = [...]string{TraceParent, TraceState, Correlation}
