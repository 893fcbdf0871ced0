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

// BodyBytesMax is the maximum size of a request body.
const BodyBytesMax = 16 << 20

// Headers of requests and replies.
const (
	HeaderIdempotencyKey = "Idempotency-Key"   // any text: the same key and body are appended once
	HeaderProducer       = "Afterbay-Producer" // the producer that numbers the records
	HeaderSequence       = "Afterbay-Sequence" // the number of the first record, from 1
)

const producerBytesMax = 512

// Reply is the JSON reply to a request, sent when all records are durable.
type Reply struct {
	Appended  int        `json:"appended"`
	Repeated  int        `json:"repeated"`  // records skipped because the log had them
	Positions []Position `json:"positions"` // positions of the appended records
}

// Position is the position of consecutive records of a request.
type Position struct {
	Partition int32         `json:"partition"`
	First     stream.Offset `json:"first"` // offset of the first
	Count     int           `json:"count"`
}

// Problem is the JSON of an error reply.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // what to do next
}

// Log is the part of stream.Log that a Handler needs.
type Log interface {
	Appender
	Topics(ctx context.Context) ([]stream.Topic, error)
}

// Handler serves POST /v1/topics/{topic}. It appends all records in the body, or none. The body is
// NDJSON, or CSV with Content-Type text/csv. The query key=FIELD takes the keys from that field
// instead of the topic's key field.
type Handler struct {
	log   Log
	full  func(error) bool
	admit Admit
}

// recordsMax is the maximum number of records in a request.
const recordsMax = 100_000

// Admit decides whether records may be appended to a topic. The error is a *Behind, or
// stream.ErrTooLarge if so many are never allowed. With 0 records it says whether any are allowed.
// The caller must call done when the records are appended or the append has failed.
type Admit func(topic string, records int) (done func(), err error)

// Behind is an error: earlier records still wait to be processed, so the client must send the
// records later.
type Behind struct {
	After  time.Duration // when to send the records again
	Reason string
}

// Error returns the reason.
func (b *Behind) Error() string { return b.Reason }

// NewHandler returns a handler that appends to log. full reports whether an append failed because
// the disk is full; nil means never. admit limits the records that wait in topics; nil accepts
// everything.
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
	if producer != "" { // the same name with another token is another producer
		producer = access.From(r.Context()).Scope() + producer
	}
	if _, err := h.admit(topic.Name, 0); err != nil {
		return nil, err // without reading the body
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

// carry copies the trace and the correlation id of a request into its records, and the correlation
// id into the reply.
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
		records[i].Headers = headers // records from a body have no headers of their own
	}
}

// carriedBytesMax limits a request header that is copied into records.
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

// TopicHint returns a hint about an unknown topic. It lists those of the existing topics that the
// caller of ctx may use.
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

// numbering returns the producer id of the request ("" if it has none) and the sequence number of
// its first record.
func numbering(r *http.Request, topic string) (producer string, first int64, err error) {
	key, producer, sequence := r.Header.Get(HeaderIdempotencyKey), r.Header.Get(HeaderProducer), r.Header.Get(HeaderSequence)
	switch {
	case key != "" && (producer != "" || sequence != ""):
		return "", 0, refuse(http.StatusBadRequest, "send one of the two", "both %s and %s", HeaderIdempotencyKey, HeaderProducer)
	case (producer == "") != (sequence == ""):
		return "", 0, refuse(http.StatusBadRequest, "send both: the producer's name, and the number of the first record",
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
	// The log copies the records.
	return b.records, room.Take(int64(len(b.bytes) + len(b.records)*appendBytes))
}

const appendBytes = 64 // memory of the log for a record in addition to its value

// positions returns the positions of records. The records of one append are consecutive in their
// partition.
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

// failure is an error with an HTTP reply.
type failure struct {
	status int
	Problem
}

// Error returns the problem.
func (f *failure) Error() string { return f.Problem.Error }

func refuse(status int, hint, format string, args ...any) error {
	return &failure{status, Problem{fmt.Sprintf(format, args...), hint}}
}

// explain returns the reply for an error.
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
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
