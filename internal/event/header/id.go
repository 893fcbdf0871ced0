package header

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// The id of a record that a pipeline writes identifies the record. It does not say how the record
// was made, so it stays the same when other parts of the file change:
//
//	<pipeline>:<event>:<topic>            the output of an event to a topic
//	<pipeline>:<event>:<topic>#<name>     the output of a step that has a name
//	<pipeline>:<event>:<topic>#<name>/<output>  one of several that a function writes
//
// The topic is the one that the pipeline file names. The event is one of:
//
//	<topic>/<partition>@<offset>          where it was read first
//	any text                              the id that its record brought
//	<event>~<group>                       of a group, by its first member
//	<event>~<join>                        of a join, by its left
//	<event>~<join>~<event>                of a join that goes on with each pair, by its left and right
//	<function>~<due>~<timer>~<set by>~<key>  of a timer; <set by> is the hash of the id that set it
//
// Names of pipelines, topics, steps and outputs have no ':', '#', '/' or '~'. So the first ':' ends
// the pipeline and the last ':' begins the topic. Two ids are equal only if all their parts are
// equal. docs/adr/0026-ids.md has the reasons.

// IDMaxBytes is the size of the largest id that a pipeline writes. A larger id is replaced by the
// prefix hashed and its SHA-256 in hexadecimal.
const IDMaxBytes = 512

// hashed is the prefix of a hashed id. Such an id has only one ':', so it differs from every id of
// three parts.
const hashed = "sha256:"

// AppendPosition appends topic/partition@offset.
func AppendPosition(dst []byte, p stream.Partition, offset stream.Offset) []byte {
	dst = append(append(dst, p.Topic...), '/')
	dst = strconv.AppendInt(dst, int64(p.Index), 10)
	return strconv.AppendInt(append(dst, '@'), int64(offset), 10)
}

// AppendID appends the id of a pipeline's output for an event to a topic. step is the name of the
// step that writes it, and output is the name that a function gives it; both may be "".
func AppendID(dst []byte, pipeline, event, topic, step, output string) []byte {
	at := len(dst)
	dst = append(append(dst, pipeline...), ':')
	dst = append(append(dst, event...), ':')
	dst = append(dst, topic...)
	if step != "" {
		dst = append(append(dst, '#'), step...)
	}
	if output != "" {
		dst = append(append(dst, '/'), output...)
	}
	return Shorten(dst, at)
}

// Shorten replaces the id that starts at at with its hash if it is longer than IDMaxBytes.
func Shorten(dst []byte, at int) []byte {
	if len(dst)-at <= IDMaxBytes {
		return dst
	}
	sum := sha256.Sum256(dst[at:])
	return hex.AppendEncode(append(dst[:at], hashed...), sum[:])
}

// IDOf returns the id that a record brought: its header, or else the position where a copy was read
// first. It returns nil if the record brought none: then its own position is its id. An empty
// header is no id, and a watermark record has no position. The result aliases the record.
func IDOf(r *stream.Record) []byte {
	var source []byte
	for i := range r.Headers {
		switch h := &r.Headers[i]; {
		case len(h.Value) == 0:
		case h.Key == ID:
			return h.Value
		case h.Key == Source && bytes.IndexByte(h.Value, '@') > 0:
			source = h.Value
		}
	}
	return source
}

// OfGroup returns the id of the event that a group makes. first is the id of its first member in
// time.
func OfGroup(first, group string) string { return first + "~" + group }

// OfJoin returns the id of the event that a join makes of the events with the ids left and right.
// right is "" if the left event goes on once.
func OfJoin(left, join, right string) string {
	if right == "" {
		return left + "~" + join
	}
	return left + "~" + join + "~" + right
}

// OfTimer returns the id of a timer of a function and key. due is in microseconds. A timer may be
// set again for the time at which it fired, so its id contains the hash of the id of the event or
// timer that set it.
func OfTimer(function string, due int64, timer string, setBy [8]byte, key string) string {
	dst := append([]byte(function), '~')
	dst = time.UnixMicro(due).UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(append(dst, '~'), escapeTimer.Replace(timer)...)
	dst = hex.AppendEncode(append(dst, '~'), setBy[:])
	return string(append(append(dst, '~'), key...))
}

// escapeTimer separates a timer's name from the text after it.
var escapeTimer = strings.NewReplacer("%", "%25", "~", "%7E")

// OutputID holds the parts of an id that AppendID wrote.
type OutputID struct{ Pipeline, Event, Topic, Step, Output string }

// ParseID returns the parts of an id. ok is false for a hashed id, and for one that no pipeline
// made.
func ParseID(text string) (id OutputID, ok bool) {
	first, last := strings.IndexByte(text, ':'), strings.LastIndexByte(text, ':')
	if first <= 0 || first == last {
		return OutputID{}, false
	}
	id = OutputID{Pipeline: text[:first], Event: text[first+1 : last], Topic: text[last+1:]}
	id.Topic, id.Output, _ = strings.Cut(id.Topic, "/")
	id.Topic, id.Step, _ = strings.Cut(id.Topic, "#")
	return id, id.Topic != ""
}
