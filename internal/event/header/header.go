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
	Approximate = prefix + "approximate" // features with windows beyond their max, read in panes
	Fallback    = prefix + "fallback"    // name@version of models that were down; their scores are the fallback

	Event     = prefix + "event"     // id of a dead letter's event; a redrive gives it back to the event
	Stage     = prefix + "stage"     // stage where a dead letter's event failed
	Error     = prefix + "error"     // the error
	Attempts  = prefix + "attempts"  // number of attempts
	Watermark = prefix + "watermark" // watermark at the event's position, RFC 3339
	Row       = prefix + "row"       // JSON of the names computed so far
	Truncated = prefix + "truncated" // parts of a dead letter that did not fit: id and key, value, row, headers, or read headers if the pipeline reads them
	Resume    = prefix + "resume"    // where its event continues after a redrive, as package redrive writes it
	Redrive   = prefix + "redrive"   // topic/partition@offset of the dead letter that was redriven as this event

	// Copied is the Source of a dead letter's event, if that event was a copy.
	Copied = prefix + "copied"

	// Source is topic/partition@offset of the event that was copied.
	Source = prefix + "source"
	// Order is the position of a copy in the order of its sources. Frontier is the progress of the
	// sources. See package state/order.
	Order    = prefix + "order"
	Frontier = prefix + "frontier"
	// Asked names the fields of the stages that were asked for a copy. Ask is where to answer an
	// ask. AnswerTo identifies the event of an answer. See package state/order. Answer holds the
	// answers in an event that is read in order; no record of the log has it.
	Asked    = prefix + "asked"
	Ask      = prefix + "ask"
	AnswerTo = prefix + "answer-to"
	Answer   = prefix + "answer"
	// Repartition is partition@number of the event, in the order of the repartition topic, that an
	// output was made from. It depends on the partitions of that topic. Position, which is that of
	// the source, does not.
	Repartition = prefix + "repartition"
)

const prefix = "afterbay-"

// Get returns the value of a record's header, or "" if the record does not have it.
func Get(r *stream.Record, key string) string { return string(Value(r, key)) }

// SourceOf returns the Source of a copy, or of a dead letter's event that was a copy. It returns ""
// for any other record.
func SourceOf(r *stream.Record) string { return cmp.Or(Get(r, Source), Get(r, Copied)) }

// Value is Get without copying. It returns nil if the record has no such header. The caller must
// not change the result.
func Value(r *stream.Record, key string) []byte {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value
		}
	}
	return nil
}

// Written reports whether a pipeline wrote a record with these headers. The time of such a record
// is the event's, and does not tell how long the record has been in the log.
func Written(headers []stream.Header) bool {
	for i := range headers {
		if key := headers[i].Key; key == Position || key == Source {
			return true
		}
	}
	return false
}

// Bytes returns the approximate size in bytes of headers in a log.
func Bytes(headers []stream.Header) int {
	n := 0
	for i := range headers {
		n += len(headers[i].Key) + len(headers[i].Value) + 16
	}
	return n
}

// AppendForeign appends the headers that an event came with, without those that its dead letter
// added.
func AppendForeign(dst, headers []stream.Header) []stream.Header {
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			dst = append(dst, h)
		}
	}
	return dst
}

// AppendCarried appends the headers that a copy keeps: those of the producer, and the id.
func AppendCarried(dst, headers []stream.Header) []stream.Header {
	for _, h := range headers {
		if h.Key == ID || !strings.HasPrefix(h.Key, prefix) {
			dst = append(dst, h)
		}
	}
	return dst
}

// MovesTime reports whether a record of a repartition topic only tells the progress of the sources
// and is not an event. A consumer that reads in order advances time on it; its offset is that of
// the next event.
func MovesTime(r *stream.Record) bool { return len(r.Headers) == 1 && r.Headers[0].Key == Frontier }
