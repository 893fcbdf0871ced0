package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// Status is the kind of a result.
type Status string

// The values of Status. An accepted event ends with one of the first four, once. StatusError
// belongs to a submission that was rejected while its event id has, or will have, another end.
const (
	StatusOK           Status = "ok"
	StatusRejected     Status = "rejected"
	StatusDeadLettered Status = "dead_lettered"
	StatusExpired      Status = "expired"
	StatusPartial      Status = "partial"
	StatusError        Status = "error"
)

// Terminal reports whether a result with this status ends its event.
func (s Status) Terminal() bool {
	return s == StatusOK || s == StatusRejected || s == StatusDeadLettered || s == StatusExpired
}

func (s Status) valid() bool { return s.Terminal() || s == StatusPartial || s == StatusError }

// Error is an error in a result or an error frame.
type Error struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	EventID   string `json:"eventId,omitempty"` // only in error frames
	Retryable bool   `json:"retryable"`
	Attempts  int    `json:"attempts,omitempty"`

	RetryAfterMs int64 `json:"retryAfterMs,omitempty"` // if retryable: when to try again; 0 if unknown
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Result is a result of an event, as its client receives it.
type Result struct {
	Tenant, Client string
	Seq            uint64 // from 1, consecutive across all results of the client
	Event          string // id of the event
	Causal         string
	Status         Status
	Attempt        int             // attempt that made a partial result, from 1; a later attempt replaces it. 0 for other results
	Payload        json.RawMessage // nil if absent
	Error          *Error          // nil unless rejected, dead_lettered, expired or error
	Model          string          // name@version, ...
	Time           time.Time
	Correlation    string
	Duplicate      bool // the client sent the event again: this is the existing result
}

// ResultRecord returns the record of a result for the results topic.
func ResultRecord(topic string, r *Result) stream.Record {
	record, h := newRecord(topic, r.Tenant, r.Client, r.Event, r.Payload)
	seq := strconv.FormatUint(r.Seq, 10)
	h.add(header.ID, Key(r.Tenant, r.Client)+"/"+seq)
	h.add(header.Seq, seq)
	r.describe(&record, &h)
	return record
}

// Outcome returns the inbox record of a result without a number; the sequencer numbers it. The
// result comes from the pipeline, or from the rejection or expiry of an event.
func Outcome(topic string, r *Result) stream.Record {
	record, h := newRecord(topic, r.Tenant, r.Client, r.Event, r.Payload)
	h.add(header.Inbox, InboxOutcome)
	r.describe(&record, &h)
	return record
}

// describe adds the headers that both kinds of records share.
func (r *Result) describe(record *stream.Record, h *headers) {
	record.Time = r.Time
	h.addEvent(r.Tenant, r.Client, r.Event)
	h.add(header.Status, string(r.Status))
	h.add(header.Causal, r.Causal)
	h.add(header.Attempt, number(int64(r.Attempt)))
	h.add(header.Models, r.Model)
	h.add(header.Correlation, r.Correlation)
	if r.Duplicate {
		h.add(header.Duplicate, "true")
	}
	if r.Error != nil {
		h.add(header.Code, r.Error.Code)
		h.add(header.Error, r.Error.Message)
		h.add(header.Attempts, number(int64(r.Error.Attempts)))
		if r.Error.Retryable {
			h.add(header.Retryable, "true")
			h.add(header.After, number(r.Error.RetryAfterMs))
		}
	}
	record.Headers = h.list
}

// ParseResult parses a record made by ResultRecord. Payload aliases the record.
func ParseResult(r *stream.Record) (Result, error) {
	p := parser{record: r}
	result := p.result()
	seq := p.number(header.Seq)
	if seq <= 0 {
		p.fail(header.Seq, header.Get(r, header.Seq))
	}
	if result.Seq = uint64(seq); p.err != nil {
		return result, fmt.Errorf("result at %v@%d: %w", r.Partition, r.Offset, p.err)
	}
	return result, nil
}

// ParseOutcome parses a record made by Outcome. Payload aliases the record.
func ParseOutcome(r *stream.Record) (Result, error) {
	p := parser{record: r}
	if kind := header.Get(r, header.Inbox); kind != InboxOutcome {
		p.fail(header.Inbox, kind)
	}
	result := p.result()
	if p.err != nil {
		return result, fmt.Errorf("outcome at %v@%d: %w", r.Partition, r.Offset, p.err)
	}
	return result, nil
}

// result parses the headers that both kinds of records share.
func (p *parser) result() Result {
	r := p.record
	result := Result{
		Status: Status(header.Get(r, header.Status)), Causal: header.Get(r, header.Causal), Model: header.Get(r, header.Models),
		Correlation: header.Get(r, header.Correlation), Duplicate: header.Get(r, header.Duplicate) == "true", Time: r.Time,
	}
	if len(r.Value) > 0 {
		result.Payload = r.Value
	}
	result.Tenant, result.Client, result.Event = p.ids()
	result.Attempt = int(p.number(header.Attempt))
	if code := header.Get(r, header.Code); code != "" {
		result.Error = &Error{
			Code: code, Message: header.Get(r, header.Error), Attempts: int(p.number(header.Attempts)),
			Retryable: header.Get(r, header.Retryable) == "true", RetryAfterMs: p.number(header.After),
		}
	}
	if !result.Status.valid() {
		p.fail(header.Status, string(result.Status))
	}
	if result.Status == StatusError && result.Error == nil {
		p.fail(header.Code, "")
	}
	return result
}
