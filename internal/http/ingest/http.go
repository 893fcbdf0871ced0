package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/stream"
)

// BodyBytesMax is the largest body of a request.
const BodyBytesMax = 16 << 20

// Headers of requests and replies.
const (
	HeaderIdempotencyKey = "Idempotency-Key"   // any text: the same key and body are appended once
	HeaderProducer       = "Afterbay-Producer" // who numbers the records,
	HeaderSequence       = "Afterbay-Sequence" // and the number of the first, from 1
)

const producerBytesMax = 512

// Reply is what a request appended, as JSON. It is sent when all of it is
// durable.
type Reply struct {
	Appended  int        `json:"appended"`
	Repeated  int        `json:"repeated"`  // left out, since the log had them
	Positions []Position `json:"positions"` // of what was appended
}

// Position is where consecutive records of a request went.
type Position struct {
	Partition int32         `json:"partition"`
	First     stream.Offset `json:"first"` // offset
	Count     int           `json:"count"`
}

// Problem is the JSON of a reply that is not 200.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // what to do next
}

// Log is what a Handler needs of a stream.Log.
type Log interface {
	Appender
	Topics(ctx context.Context) ([]stream.Topic, error)
}

// Handler serves POST /v1/topics/{topic}: the records in the body, NDJSON or
// with Content-Type text/csv CSV, are appended all or none. The query key=FIELD
// takes their keys from that field instead of the topic's.
type Handler struct {
	log   Log
	full  func(error) bool
	admit Admit
}

// recordsMax is the most records of a request.
const recordsMax = 100_000

// Admit says whether so many records may be appended to a topic: the error is a
// *Behind, or stream.ErrTooLarge of more than may ever. With 0 records it says
// whether any may. done is to be called when they are appended, or will not be.
type Admit func(topic string, records int) (done func(), err error)

// Behind says that records are to be sent again later: those before them still
// wait to be processed.
type Behind struct {
	After  time.Duration // when to send them again
	Reason string
}

// Error returns the reason.
func (b *Behind) Error() string { return b.Reason }

// NewHandler returns a handler that appends to log. full says whether an append
// failed for want of space; nil is never. admit bounds what waits in topics; nil
// takes everything.
func NewHandler(log Log, full func(error) bool, admit Admit) *Handler {
	if admit == nil {
		admit = func(string, int) (func(), error) { return func() {}, nil }
	}
	return &Handler{log: log, full: full, admit: admit}
}

// ServeHTTP appends the records of the request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply, err := h.append(w, r)
	if err == nil {
		WriteJSON(w, http.StatusOK, reply)
		return
	}
	f := h.explain(err)
	var behind *Behind
	if why, ok := server.AsRefusal(err); ok {
		why.Write(w)
		return
	}
	switch {
	case errors.As(err, &behind):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(behind.After.Seconds()))))
	case f.status == http.StatusInsufficientStorage || f.status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	WriteJSON(w, f.status, f.Problem)
}

func (h *Handler) append(w http.ResponseWriter, r *http.Request) (*Reply, error) {
	topic, err := h.topic(r)
	if err != nil {
		return nil, err
	}
	producer, first, err := numbering(r, topic.Name)
	if err != nil {
		return nil, err
	}
	if producer != "" { // of two tokens the same name is two producers
		producer = access.From(r.Context()).Scope() + producer
	}
	if _, err := h.admit(topic.Name, 0); err != nil {
		return nil, err // and the body is not read
	}
	room := server.RoomOf(r.Context())
	body, err := room.OpenBody(r, BodyBytesMax, server.Gzip, server.Zstd)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	records, err := readBody(body, formatOf(r), topic.Name, cmp.Or(r.URL.Query().Get("key"), topic.Key), room)
	if err != nil {
		return nil, err
	}
	carry(w, r, records)
	done, err := h.admit(topic.Name, len(records))
	if err != nil {
		return nil, err
	}
	defer done()
	repeated, err := appendBatch(r.Context(), h.log, producer, first, records)
	if err != nil {
		return nil, err
	}
	return &Reply{Appended: len(records) - repeated, Repeated: repeated, Positions: positions(records)}, nil
}

// carry gives records the trace and the correlation id of their request, and the
// reply that id.
func carry(w http.ResponseWriter, r *http.Request, records []stream.Record) {
	var headers []stream.Header
	for _, name := range header.Context {
		if value := r.Header.Get(name); value != "" && len(value) <= carriedBytesMax {
			headers = append(headers, stream.Header{Key: name, Value: []byte(value)})
		}
	}
	if id := r.Header.Get(header.Correlation); id != "" {
		w.Header().Set(header.Correlation, id)
	}
	for i := range records {
		records[i].Headers = headers // a body's records have none of their own
	}
}

// carriedBytesMax bounds a header of a request that its records get.
const carriedBytesMax = 512

func (h *Handler) topic(r *http.Request) (stream.Topic, error) {
	name := r.PathValue("topic")
	topics, err := h.log.Topics(r.Context())
	if err != nil {
		return stream.Topic{}, err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == name })
	if i < 0 {
		names := make([]string, len(topics))
		for i, t := range topics {
			names[i] = t.Name
		}
		return stream.Topic{}, refuse(http.StatusNotFound, TopicHint(r.Context(), names), "unknown topic %q", name)
	}
	return topics[i], nil
}

// TopicHint says what to do about an unknown topic, where these exist. It names those that
// the caller of ctx may use.
func TopicHint(ctx context.Context, topics []string) string {
	caller := access.From(ctx)
	known := slices.DeleteFunc(slices.Clone(topics), func(name string) bool { return !caller.Knows(name) })
	const create = "run a pipeline that reads it, or create it with afterbay produce --partitions"
	switch {
	case len(topics) == 0:
		return "there are no topics: " + create
	case len(known) == 0:
		return "the token may use no topic that exists: " + create
	}
	return "the topics are " + strings.Join(known, ", ") + "; " + create
}

func formatOf(r *http.Request) Format {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "text/csv" {
		return CSV
	}
	return NDJSON
}

// numbering returns who numbers the records of the request, "" for nobody, and
// the number of the first.
func numbering(r *http.Request, topic string) (producer string, first int64, err error) {
	key, producer, sequence := r.Header.Get(HeaderIdempotencyKey), r.Header.Get(HeaderProducer), r.Header.Get(HeaderSequence)
	switch {
	case key != "" && (producer != "" || sequence != ""):
		return "", 0, refuse(http.StatusBadRequest, "send one of the two", "both %s and %s", HeaderIdempotencyKey, HeaderProducer)
	case (producer == "") != (sequence == ""):
		return "", 0, refuse(http.StatusBadRequest, "send both: who numbers the records, and the number of the first",
			"one of %s and %s is missing", HeaderProducer, HeaderSequence)
	case max(len(key), len(producer)) > producerBytesMax:
		return "", 0, refuse(http.StatusBadRequest, "send a shorter one, such as its hash", "a name of more than %d bytes", producerBytesMax)
	case key != "":
		return "idempotency-key:" + topic + ":" + key, 1, nil
	case producer == "":
		return "", 0, nil
	}
	first, err = strconv.ParseInt(sequence, 10, 64)
	if err != nil || first < 1 || first > math.MaxInt64-recordsMax {
		return "", 0, refuse(http.StatusBadRequest, "send the number of the first record, 1 for the producer's first ever",
			"%s %q is not a number from 1", HeaderSequence, sequence)
	}
	return producer, first, nil
}

// readBody reads all records of a request.
func readBody(body io.Reader, format Format, topic, key string, room *server.Room) ([]stream.Record, error) {
	if err := room.Work(); err != nil {
		return nil, err
	}
	defer room.Rest()
	reader, err := newReader(body, "body", format, room)
	if err != nil {
		return nil, err
	}
	b := &batch{room: room}
	for more := true; more; {
		if more, err = b.take(reader, topic, key); err != nil {
			return nil, err
		}
		if len(b.bytes) > BodyBytesMax {
			return nil, refuse(http.StatusRequestEntityTooLarge, "send several requests", "records of more than %d MiB", BodyBytesMax>>20)
		}
		if len(b.records) > recordsMax {
			return nil, refuse(http.StatusRequestEntityTooLarge, "send several requests", "more than %d records", recordsMax)
		}
	}
	if len(b.records) == 0 {
		return nil, refuse(http.StatusBadRequest, "send one JSON object a line, or CSV with Content-Type: text/csv", "the body has no records")
	}
	// The log copies what it appends.
	return b.records, room.Take(int64(len(b.bytes) + len(b.records)*appendBytes))
}

const appendBytes = 64 // that the log needs for a record beside its value

// positions sums up where records went: those of one append follow each other
// in their partition.
func positions(records []stream.Record) []Position {
	found := []Position{}
	for i := range records {
		r := &records[i]
		if r.Offset < 0 {
			continue
		}
		at := slices.IndexFunc(found, func(p Position) bool { return p.Partition == r.Partition.Index })
		if at < 0 {
			found = append(found, Position{Partition: r.Partition.Index, First: r.Offset, Count: 1})
			continue
		}
		found[at].Count++
	}
	slices.SortFunc(found, func(a, b Position) int { return cmp.Compare(a.Partition, b.Partition) })
	return found
}

// failure is an error with its reply.
type failure struct {
	status int
	Problem
}

// Error returns the problem.
func (f *failure) Error() string { return f.Problem.Error }

func refuse(status int, hint, format string, args ...any) error {
	return &failure{status, Problem{fmt.Sprintf(format, args...), hint}}
}

// explain finds the reply to an error.
func (h *Handler) explain(err error) *failure {
	var known *failure
	var line *LineError
	var behind *Behind
	reply := func(status int, hint string) *failure { return &failure{status, Problem{err.Error(), hint}} }
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &behind):
		return reply(http.StatusTooManyRequests, "send it again after the time in Retry-After; nothing was appended")
	case errors.As(err, &line) && line.Oversized:
		return reply(http.StatusRequestEntityTooLarge, "leave the line out: no record is larger than 1 MiB; nothing was appended")
	case errors.As(err, &line):
		return reply(http.StatusBadRequest, "correct the line; nothing was appended")
	case errors.Is(err, stream.ErrTooLarge):
		return reply(http.StatusRequestEntityTooLarge, "send several requests of fewer or smaller records")
	case errors.Is(err, stream.ErrUnknownTopic):
		return reply(http.StatusNotFound, "list the topics with afterbay topics")
	case errors.Is(err, stream.ErrClosed):
		return reply(http.StatusServiceUnavailable, "the process is ending: send it again when it is back")
	case h.full != nil && h.full(err):
		return reply(http.StatusInsufficientStorage, "the log has no room: free disk space, then send it again")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return reply(http.StatusServiceUnavailable, "the append may or may not have happened: send it again with the same "+HeaderIdempotencyKey)
	}
	return reply(http.StatusInternalServerError, "the append may or may not have happened: see the log of the process")
}

// WriteJSON sends v as the JSON body of a reply.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody is left to tell
}
