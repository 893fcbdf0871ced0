// Package header names the headers of the records that pipelines write.
package header

import (
	"cmp"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// Headers of outputs, dead letters and copies.
const (
	ID          = prefix + "id"          // deterministic id of the record: id.go
	Position    = prefix + "position"    // topic/partition@offset of the event
	Models      = prefix + "models"      // name@version sha256:digest, ...
	Pipeline    = prefix + "pipeline"    // name sha256:digest generation
	Approximate = prefix + "approximate" // features of windows beyond their max, read in panes
	Fallback    = prefix + "fallback"    // name@version of models that were down, whose scores are the fallback

	Event     = prefix + "event"     // id of a dead letter's event, which it gets back when it is sent back
	Stage     = prefix + "stage"     // where a dead letter's event failed
	Error     = prefix + "error"     // and why
	Attempts  = prefix + "attempts"  // how often it was tried
	Watermark = prefix + "watermark" // RFC 3339, at the event's position
	Row       = prefix + "row"       // JSON of the names computed so far
	Truncated = prefix + "truncated" // parts of a dead letter that did not fit: id and key, value, row, headers, or read headers if the pipeline reads them
	Resume    = prefix + "resume"    // where its event goes on when it is sent back, as package redrive writes it
	Redrive   = prefix + "redrive"   // topic/partition@offset of the dead letter that an event sent back was

	// Copied is the Source of the copy that a dead letter was.
	Copied = prefix + "copied"

	// Source is topic/partition@offset of the event that a copy is of.
	Source = prefix + "source"
	// Order is the place of a copy in the order of its sources, and Frontier how far these
	// are: see package state/order.
	Order    = prefix + "order"
	Frontier = prefix + "frontier"
	// Asked names the fields by which stages were asked for a copy, Ask is where an ask has
	// to be answered, and AnswerTo says of which event an answer is: see package state/order.
	// Answer has what was answered, in an event that is read in order; the log has none.
	Asked    = prefix + "asked"
	Ask      = prefix + "ask"
	AnswerTo = prefix + "answer-to"
	Answer   = prefix + "answer"
	// Repartition is partition@number of the event in the order of the repartition topic, from
	// which an output was made. It depends on the partitions of that topic; Position, which is
	// that of the source, does not.
	Repartition = prefix + "repartition"
)

const prefix = "afterbay-"

// Get returns the value of a record's header; "" where it has none.
func Get(r *stream.Record, key string) string { return string(Value(r, key)) }

// SourceOf returns the Source of a copy, or of the copy that a dead letter was; "" of others.
func SourceOf(r *stream.Record) string { return cmp.Or(Get(r, Source), Get(r, Copied)) }

// Value is Get without a copy: nil where the record has no such header.
func Value(r *stream.Record, key string) []byte {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value
		}
	}
	return nil
}

// Written reports whether a pipeline wrote a record with these headers: then its
// time is the event's, and does not say how long it has been in the log.
func Written(headers []stream.Header) bool {
	for i := range headers {
		if key := headers[i].Key; key == Position || key == Source {
			return true
		}
	}
	return false
}

// Bytes is about how many bytes headers take in a log.
func Bytes(headers []stream.Header) int {
	n := 0
	for i := range headers {
		n += len(headers[i].Key) + len(headers[i].Value) + 16
	}
	return n
}

// AppendForeign appends the headers that an event came with, but not those that
// its dead letter has of its own.
func AppendForeign(dst, headers []stream.Header) []stream.Header {
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			dst = append(dst, h)
		}
	}
	return dst
}

// AppendCarried appends the headers that go on with a copy: those of its maker,
// and its id.
func AppendCarried(dst, headers []stream.Header) []stream.Header {
	for _, h := range headers {
		if h.Key == ID || !strings.HasPrefix(h.Key, prefix) {
			dst = append(dst, h)
		}
	}
	return dst
}

// MovesTime reports whether a record of a repartition topic is no event: it says how far sources
// are. If it is read in order it says that time moved on, and its offset is that of the next
// event.
func MovesTime(r *stream.Record) bool { return len(r.Headers) == 1 && r.Headers[0].Key == Frontier }
