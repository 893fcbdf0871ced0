package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Event is an event that a client sends. Tenant and Client come from its token.
type Event struct {
	Tenant, Client string
	ID             string
	Sequence       int64           // from 1, in the client's order; 0 if the event has no order
	Causal         string          // id of the event that caused this one; may be empty
	Payload        json.RawMessage // any JSON, in UTF-8
	Time           time.Time       // set by the client; zero if absent
	TraceParent    string
	Correlation    string // 1 to 128 printable ASCII characters, or empty
	Priority       int    // 0 to 9
}

// PriorityMax is the highest priority of an event.
const PriorityMax = 9

// TraceParentBytes is the length of a W3C traceparent, version 00.
const TraceParentBytes = 55

const correlationBytesMax = 128

// Validate returns the first error in the event.
func (e *Event) Validate() error {
	for _, id := range [...]struct{ name, id string }{{"tenantId", e.Tenant}, {"clientId", e.Client}, {"eventId", e.ID}} {
		if err := CheckID(id.name, id.id); err != nil {
			return err
		}
	}
	switch {
	case e.Causal != "" && !ValidID(e.Causal):
		return CheckID("causalId", e.Causal)
	case e.Sequence < 0:
		return fmt.Errorf("sequence %d: use 1 and up, or leave it out", e.Sequence)
	case e.Priority < 0 || e.Priority > PriorityMax:
		return fmt.Errorf("priority %d: use 0 to %d", e.Priority, PriorityMax)
	case !e.Time.IsZero() && !validTime(e.Time.UTC()):
		return fmt.Errorf("timestamp %v: use one from 1970 on to 9999, in UTC, or leave it out", e.Time)
	case len(e.Payload) == 0:
		return fmt.Errorf("payload is missing: give any JSON value")
	case !validJSON(e.Payload):
		return fmt.Errorf("payload is not JSON")
	case !utf8.Valid(e.Payload): // json.Valid accepts invalid UTF-8 in strings
		return fmt.Errorf("payload is not UTF-8: encode its texts, or write \\u escapes")
	case !printable(e.Correlation) || len(e.Correlation) > correlationBytesMax:
		return fmt.Errorf("correlationId: use at most %d printable ASCII characters", correlationBytesMax)
	case e.TraceParent != "" && (len(e.TraceParent) != TraceParentBytes || !printable(e.TraceParent)):
		return fmt.Errorf("traceparent: use the %d characters of the W3C's version 00, or leave it out", TraceParentBytes)
	}
	return nil
}

// validTime reports whether a time in UTC is from 1970 to 9999. The caller must convert to UTC: in
// another zone the year may differ from that in the log, and no result could be written.
func validTime(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// The types of inbox records, in header.Inbox.
const (
	InboxEvent   = "event"
	InboxOutcome = "outcome" // written for the pipeline, or when an event is rejected or expires
	InboxTime    = "time"    // written by the sequencer when time must advance
	InboxCancel  = "cancel"  // written when a client cancels an event
)

// CancelRecord returns the inbox record that cancels a client's event.
func CancelRecord(topic, tenant, client, id, correlation string) stream.Record {
	r, h := newRecord(topic, tenant, client, id, nil)
	h.add(header.Inbox, InboxCancel)
	h.addEvent(tenant, client, id)
	h.add(header.Correlation, correlation)
	r.Headers = h.list
	return r
}

// ParseCancel parses a record made by CancelRecord.
func ParseCancel(r *stream.Record) (tenant, client, id string, err error) {
	p := parser{record: r}
	tenant, client, id = p.ids()
	return tenant, client, id, p.err
}

// Submit returns the inbox record of an event. Its value is the payload, its key is the client's
// key, and its time is the append time.
func Submit(topic string, e *Event) stream.Record {
	r, h := newRecord(topic, e.Tenant, e.Client, e.ID, e.Payload)
	h.add(header.Inbox, InboxEvent)
	h.addEvent(e.Tenant, e.Client, e.ID)
	h.add(header.Sequence, number(e.Sequence))
	h.add(header.Causal, e.Causal)
	h.add(header.Priority, number(int64(e.Priority)))
	h.add(header.Timestamp, timeText(e.Time))
	h.add(header.TraceParent, e.TraceParent)
	h.add(header.Correlation, e.Correlation)
	r.Headers = h.list
	return r
}

// ParseSubmit parses and validates a record made by Submit. Payload aliases the record.
func ParseSubmit(r *stream.Record) (Event, error) {
	e := Event{
		Payload: r.Value, Causal: header.Get(r, header.Causal),
		TraceParent: header.Get(r, header.TraceParent), Correlation: header.Get(r, header.Correlation),
	}
	if kind := header.Get(r, header.Inbox); kind != InboxEvent {
		return e, fmt.Errorf("%v@%d: header %s is %q, not %q", r.Partition, r.Offset, header.Inbox, kind, InboxEvent)
	}
	p := parser{record: r}
	e.Tenant, e.Client, e.ID = p.ids()
	e.Sequence = p.number(header.Sequence)
	e.Priority = int(p.number(header.Priority))
	e.Time = p.time(header.Timestamp)
	if p.err == nil {
		p.err = e.Validate()
	}
	if p.err != nil {
		return e, fmt.Errorf("event at %v@%d: %w", r.Partition, r.Offset, p.err)
	}
	return e, nil
}

// newRecord returns a record of a client, and a builder for its headers.
func newRecord(topic, tenant, client, id string, value []byte) (stream.Record, headers) {
	name := len(tenant) + 1 + len(client)
	h := headers{bytes: make([]byte, 0, 2*name+len(id)+headerBytes), list: make([]stream.Header, 0, headersFew)}
	h.bytes = append(append(append(h.bytes, tenant...), '/'), client...)
	key := h.bytes[:name:name]
	return stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: key, Value: value}, h
}

// headers builds the headers of a record. A few headers need only two allocations.
type headers struct {
	list  []stream.Header
	bytes []byte // the values of all headers
}

const headersFew, headerBytes = 4, 64

// add adds a header unless text is empty.
func (h *headers) add(key, text string) {
	if text == "" {
		return
	}
	h.bytes = append(h.bytes, text...)
	h.end(key, len(text))
}

// end adds a header with the last n bytes as its value.
func (h *headers) end(key string, n int) {
	end := len(h.bytes)
	h.list = append(h.list, stream.Header{Key: key, Value: h.bytes[end-n : end : end]})
}

// addEvent adds the header with the ids of an event.
func (h *headers) addEvent(tenant, client, id string) {
	h.bytes = append(append(append(h.bytes, tenant...), '/'), client...)
	h.bytes = append(append(h.bytes, '/'), id...)
	h.end(header.ClientEvent, len(tenant)+len(client)+len(id)+2)
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// parser reads headers and keeps the first error.
type parser struct {
	record *stream.Record
	err    error
}

func (p *parser) ids() (tenant, client, id string) {
	text := header.Get(p.record, header.ClientEvent)
	tenant, client, id, ok := ParseClientEvent(text)
	if !ok {
		p.fail(header.ClientEvent, text)
	} else if string(p.record.Key) != text[:len(tenant)+1+len(client)] {
		p.fail("key", string(p.record.Key))
	}
	return tenant, client, id
}

func (p *parser) number(key string) int64 {
	text := header.Get(p.record, key)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.fail(key, text)
	}
	return n
}

func (p *parser) time(key string) time.Time {
	text := header.Get(p.record, key)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.fail(key, text)
	}
	return t
}

func (p *parser) fail(key, text string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s is %.160q, which no gateway writes", key, text)
	}
}
