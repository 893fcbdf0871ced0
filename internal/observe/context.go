package observe

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Context identifies a span of a trace, as in W3C Trace Context.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // the span is recorded
}

const contextLen = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// ParseContext parses the value of a traceparent header. ok is false if the value is not valid and
// must be ignored.
func ParseContext(text []byte) (c Context, ok bool) {
	if len(text) < contextLen || text[2] != '-' || text[35] != '-' || text[52] != '-' || string(text[:2]) == "ff" {
		return Context{}, false
	}
	if len(text) > contextLen && (string(text[:2]) == "00" || text[contextLen] != '-') {
		return Context{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct{ dst, src []byte }{
		{version[:], text[:2]}, {c.Trace[:], text[3:35]}, {c.Span[:], text[36:52]}, {flags[:], text[53:55]},
	} {
		for _, b := range part.src {
			if b >= 'A' && b <= 'F' { // only lower case is allowed
				return Context{}, false
			}
		}
		if _, err := hex.Decode(part.dst, part.src); err != nil {
			return Context{}, false
		}
	}
	c.Sampled = flags[0]&1 == 1
	return c, c.Trace != [16]byte{} && c.Span != [8]byte{}
}

// String returns the value of a header traceparent.
func (c Context) String() string {
	b := make([]byte, 0, contextLen)
	b = append(hex.AppendEncode(append(b, "00-"...), c.Trace[:]), '-')
	b = hex.AppendEncode(b, c.Span[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// AppendContext appends the trace headers for an output of an event. They tell the reader of the
// output its trace, its correlation id, and the client's event that it belongs to. They are the
// headers of the event itself, with the event's span in the pipeline as the parent. The headers
// depend only on the event and its position, so they are the same after a crash.
func AppendContext(dst []stream.Header, pipeline string, event *stream.Record) []stream.Header {
	for i := range event.Headers {
		switch h := &event.Headers[i]; h.Key {
		case header.TraceParent:
			if c, ok := ParseContext(h.Value); ok {
				c.Span = spanOf(pipeline, event)
				dst = append(dst, stream.Header{Key: h.Key, Value: []byte(c.String())})
			}
		case header.TraceState, header.Correlation, header.ClientEvent:
			dst = append(dst, *h)
		}
	}
	return dst
}

// spanOf returns the id of the span of an event in a pipeline.
func spanOf(pipeline string, r *stream.Record) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], hashOf(pipeline, r, 1)|1)
	return id
}

// traceOf returns the trace id for an event that arrived without a trace.
func traceOf(pipeline string, r *stream.Record) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], hashOf(pipeline, r, 2)|1)
	binary.BigEndian.PutUint64(id[8:], hashOf(pipeline, r, 3))
	return id
}

// hashOf hashes a pipeline and a position to 64 bits, with FNV-1a and the finalizer of SplitMix64.
func hashOf(pipeline string, r *stream.Record, seed uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, text := range [...]string{pipeline, r.Partition.Topic} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h += seed*0x9e3779b97f4a7c15 + uint64(r.Partition.Index)<<48 + uint64(r.Offset)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
