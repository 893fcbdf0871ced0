package sequence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// partition processes the records of one inbox partition in order. Its decisions depend only on
// these records:
//
//  1. An id is known from its first event until it is forgotten, because of its age in
//     append time or because there are too many. A known id has one entry.
//  2. An entry ends once, and keeps its result. An entry that is forgotten before it has
//     ended ends as expired.
//  3. The results of a client are numbered in write order.
//  4. One record ends at most forgetMax entries by time, so that transactions stay
//     bounded. The rest follow with later records. If no client appends any, the loop
//     writes time records.
type partition struct {
	cells   cells
	meta    meta
	dirty   bool // meta differs from the stored value
	next    stream.Offset
	asked   time.Time // when the last time record was written
	options *Options
	field   string // key field of the pipeline's input; "" if none
}

// forgetMax limits the entries that one record ends by time. They add some 600 KB to a transaction,
// or 2 MB if all ids have the maximum length.
const forgetMax = 1024

func restore(a stream.Assigned, o *Options, field string) (*partition, error) {
	p := &partition{cells: cells{partition: a.Partition, view: a.State, written: map[string][]byte{}}, next: a.Next, options: o, field: field}
	data, err := a.State.Get([]byte{kindMeta})
	if err != nil {
		return nil, err
	}
	p.meta.clock = math.MinInt64
	if data != nil {
		p.meta, err = parseMeta(data)
	}
	return p, err
}

// settle writes the state of the partition itself.
func (p *partition) settle() {
	if p.dirty {
		p.cells.put([]byte{kindMeta}, p.meta.append(nil))
		p.dirty = false
	}
}

// subject is an event that is being processed, with its state.
type subject struct {
	name      string // the three ids, the name of its entry
	clientKey string
	event     string // the event's own id
	client    client
	entry     entry
	known     bool // it has an entry
	turn      *turn
}

func (p *partition) find(tenant, id, event string, t *turn) (s subject, err error) {
	s = subject{clientKey: wire.Key(tenant, id), event: event, turn: t}
	s.name = s.clientKey + "/" + event
	data, err := p.cells.get(key(kindClient, s.clientKey))
	if err == nil && data != nil {
		s.client, err = parseClient(data)
	}
	if err != nil {
		return s, fmt.Errorf("client %s: %w", s.clientKey, err)
	}
	if data, err = p.cells.get(key(kindEvent, s.name)); err == nil && data != nil {
		s.known = true
		s.entry, err = parseEntry(data)
	}
	if err != nil {
		return s, fmt.Errorf("event %s: %w", s.name, err)
	}
	return s, nil
}

// keep writes the state of the event and its client.
func (p *partition) keep(s *subject) {
	p.cells.put(key(kindClient, s.clientKey), s.client.append(nil))
	p.cells.put(key(kindEvent, s.name), s.entry.append(nil))
}

func (p *partition) take(r *stream.Record, t *turn) error {
	p.next = r.Offset + 1
	p.dirty = true
	switch header.Get(r, header.Inbox) {
	case wire.InboxEvent:
		event, err := wire.ParseSubmit(r)
		if err == nil {
			err = p.owns(event.Tenant, event.Client)
		}
		if err != nil {
			p.bad(r, err, t)
			return nil
		}
		if err := p.advance(r.Time, t); err != nil {
			return err
		}
		if err := p.submit(&event, r, t); err != nil {
			return err
		}
		return p.forget(t)
	case wire.InboxOutcome:
		result, err := wire.ParseOutcome(r)
		if err == nil {
			err = p.owns(result.Tenant, result.Client)
		}
		if err != nil {
			p.bad(r, err, t)
			return nil
		}
		return p.outcome(result, t)
	case wire.InboxTime:
		return p.pass(r.Time, t)
	case wire.InboxCancel:
		tenant, client, event, err := wire.ParseCancel(r)
		if err == nil {
			err = p.owns(tenant, client)
		}
		if err != nil {
			p.bad(r, err, t)
			return nil
		}
		if err := p.advance(r.Time, t); err != nil {
			return err
		}
		if err := p.cancel(tenant, client, event, r, t); err != nil {
			return err
		}
		return p.forget(t)
	}
	p.bad(r, fmt.Errorf("no gateway wrote this record: header %s is %q", header.Inbox, header.Get(r, header.Inbox)), t)
	return nil
}

func (p *partition) owns(tenant, client string) error {
	if at := wire.PartitionOf(tenant, client, p.options.Partitions); at != p.cells.partition.Index {
		return fmt.Errorf("client %s/%s is of partition %d: append events by their key", tenant, client, at)
	}
	return nil
}

// submit processes an event: it forwards, holds, rejects or deduplicates it.
func (p *partition) submit(e *wire.Event, r *stream.Record, t *turn) error {
	s, err := p.find(e.Tenant, e.Client, e.ID, t)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(e.Payload)
	hash := [hashBytes]byte(sum[:])
	if s.known {
		return p.again(&s, e, r, hash)
	}
	s.entry = entry{at: p.meta.clock, sequence: e.Sequence, hash: hash, causal: e.Causal}
	p.cells.put(numbered(kindID, p.meta.nextID), place{s.entry.at, s.name}.append(nil))
	p.meta.nextID++
	switch next := s.client.sequence + 1; {
	case e.Sequence == 0:
		p.forward(&s, e, r)
	case e.Sequence == next:
		s.client.sequence++
		p.forward(&s, e, r)
		err = p.release(&s)
	case e.Sequence < next:
		p.reject(&s, e, r.Time, wire.CodeSequence, false, fmt.Sprintf("sequence %d has passed: the next one is %d", e.Sequence, next))
	default:
		err = p.hold(&s, e, r)
	}
	p.keep(&s)
	return err
}

// again answers an event with a known id.
func (p *partition) again(s *subject, e *wire.Event, r *stream.Record, hash [hashBytes]byte) error {
	result := wire.Result{Tenant: e.Tenant, Client: e.Client, Event: e.ID, Causal: e.Causal, Correlation: e.Correlation, Status: wire.StatusError, Time: r.Time}
	switch {
	case hash != s.entry.hash:
		p.options.Metrics.Conflicts.Add(1)
		result.Error = &wire.Error{Code: wire.CodeEventIDConflict, Message: "another event has this id: give each event a unique id"}
	case s.entry.state == forwarded || s.entry.state == held:
		p.options.Metrics.Duplicates.Add(1) // the result will follow
		return nil
	default:
		p.options.Metrics.Duplicates.Add(1)
		var err error
		if result, err = wire.ParseOutcome(s.entry.record); err != nil {
			return fmt.Errorf("%w: %w", packed.ErrDamaged, err)
		}
		result.Duplicate = true
	}
	p.write(s, &result)
	p.keep(s)
	return nil
}

// forward sends an event to the pipeline. Its predecessors have been sent.
func (p *partition) forward(s *subject, e *wire.Event, r *stream.Record) {
	limits := &p.options.Limits
	if e.Time.Sub(r.Time) > limits.Ahead {
		p.reject(s, e, r.Time, wire.CodeTimestamp, false, fmt.Sprintf("timestamp is more than %v ahead: set the client's clock, or leave it out", limits.Ahead))
		return
	}
	key := p.inputKey(e, r)
	if most := min(limits.EventBytes, s.turn.valueMax-len(key)); len(e.Payload) > most {
		p.reject(s, e, r.Time, wire.CodeTooLarge, false, fmt.Sprintf("payload of %d bytes is over the limit of %d", len(e.Payload), most))
		return
	}
	p.options.Metrics.Accepted.Add(1)
	s.entry.state, s.entry.record, s.entry.correlation = forwarded, nil, e.Correlation
	if s.entry.key = nil; p.field != "" {
		s.entry.key = key
	}
	s.turn.output(inputRecord(p.options.Input, s.name, key, e, r))
}

// inputKey returns the key of an event in the pipeline's input. If the payload has no key, it is
// the client's key: the pipeline will report the error.
func (p *partition) inputKey(e *wire.Event, r *stream.Record) []byte {
	if p.field != "" {
		if key, ok := decode.Key(e.Payload, p.field); ok {
			return key
		}
	}
	return r.Key
}

// inputRecord returns the record for the pipeline's input. Its time is the client's timestamp, if
// there is one.
func inputRecord(topic, name string, key []byte, e *wire.Event, r *stream.Record) stream.Record {
	record := stream.Record{
		Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Time: r.Time, Key: key, Value: e.Payload,
		Headers: []stream.Header{{Key: header.ID, Value: []byte(name)}, {Key: header.ClientEvent, Value: []byte(name)}},
	}
	if !e.Time.IsZero() {
		record.Time = e.Time.Truncate(time.Microsecond)
	}
	priority := ""
	if e.Priority > 0 {
		priority = strconv.Itoa(e.Priority)
	}
	for _, h := range [...]struct{ key, value string }{
		{header.TraceParent, e.TraceParent}, {header.Correlation, e.Correlation}, {header.ClientCausal, e.Causal}, {header.ClientPriority, priority},
	} {
		if h.value != "" {
			record.Headers = append(record.Headers, stream.Header{Key: h.key, Value: []byte(h.value)})
		}
	}
	return record
}

// reject ends an event without sending it to the pipeline.
func (p *partition) reject(s *subject, e *wire.Event, at time.Time, code string, retryable bool, message string) {
	p.options.Metrics.Rejected.Add(1)
	p.end(s, &wire.Result{
		Tenant: e.Tenant, Client: e.Client, Event: e.ID, Causal: e.Causal, Correlation: e.Correlation, Time: at,
		Status: wire.StatusRejected, Error: &wire.Error{Code: code, Message: message, Retryable: retryable},
	})
}

// end writes the final result of an event.
func (p *partition) end(s *subject, result *wire.Result) {
	record := wire.Outcome("", result)
	s.entry.state, s.entry.record = ended, &record
	p.options.Metrics.Ends.of(result.Status).Add(1)
	p.write(s, result)
}

// write numbers and writes a result.
func (p *partition) write(s *subject, result *wire.Result) {
	p.options.Metrics.Results.Add(1)
	s.client.seq++
	result.Seq = s.client.seq
	record := wire.ResultRecord(Results(p.options.Name), result)
	record.Partition.Index = p.cells.partition.Index
	s.turn.output(record)
}

// outcome processes the pipeline's outcome of an event.
func (p *partition) outcome(result wire.Result, t *turn) error {
	s, err := p.find(result.Tenant, result.Client, result.Event, t)
	switch {
	case err != nil:
		return err
	case !s.known:
		p.options.Metrics.Unknown.Add(1)
		return nil
	case s.entry.state == redriven || s.entry.state == ended && !(result.Status == wire.StatusOK && isLetter(&s.entry)):
		p.options.Metrics.Dropped.Add(1)
		return nil
	}
	result.Causal, result.Correlation = s.entry.causal, s.entry.correlationID()
	switch {
	case s.entry.state == ended:
		p.options.Metrics.Redriven.Add(1)
		s.entry.state = redriven
		result.Event, result.Causal = redrivenID(result.Event), result.Event
		p.write(&s, &result)
	case result.Status.Terminal():
		if s.entry.state == held {
			p.unhold(&s)
		}
		p.end(&s, &result)
	default:
		p.write(&s, &result)
	}
	p.keep(&s)
	return nil
}

// isLetter reports whether an event ended with a dead letter, which may be redriven.
func isLetter(e *entry) bool {
	switch wire.Status(header.Get(e.record, header.Status)) {
	case wire.StatusDeadLettered, wire.StatusExpired:
		return true
	case wire.StatusRejected:
		return header.Get(e.record, header.Code) == wire.CodeTenantQuota
	}
	return false
}

// redrivenID returns the event id for the result of a redriven dead letter. It hashes the original
// id, which may already have the maximum length.
func redrivenID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "redriven:" + hex.EncodeToString(sum[:hashBytes])
}

// bad turns a record that no gateway has written into a dead letter.
func (p *partition) bad(r *stream.Record, reason error, t *turn) {
	// With these limits the dead letter, with its added headers, is smaller than the original
	// record.
	valueMax, headersMax, keyMax := min(512<<10, t.valueMax/2), min(32<<10, t.valueMax/4), min(4<<10, t.valueMax/8)
	p.options.Metrics.Bad.Add(1)
	at := p.cells.partition
	letter := stream.Record{Partition: stream.Partition{Topic: DeadTopic(p.options.Name), Index: at.Index}, Time: r.Time, Key: r.Key, Value: r.Value}
	add := func(key, value string) {
		letter.Headers = append(letter.Headers, stream.Header{Key: key, Value: []byte(value)})
	}
	add(header.Stage, "sequence")
	add(header.Error, reason.Error())
	add(header.Position, fmt.Sprintf("%v@%d", at, r.Offset))
	var left []string
	if len(r.Value) > valueMax {
		letter.Value, left = r.Value[:valueMax], append(left, "value")
	}
	if len(r.Key) > keyMax {
		letter.Key, left = nil, append(left, "key")
	}
	if header.Bytes(r.Headers) <= headersMax {
		letter.Headers = header.AppendForeign(letter.Headers, r.Headers)
	} else {
		left = append(left, "headers")
	}
	if left != nil {
		add(header.Truncated, strings.Join(left, ", "))
	}
	t.output(letter)
}
