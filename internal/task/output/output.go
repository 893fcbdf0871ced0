// Package output makes the records that the events of a transaction write to the log: outputs, dead
// letters and copies. It reuses its memory.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// Never is the time of an event with an unknown time.
const Never = operator.Never

// Form holds the properties that all records of a pipeline share.
type Form struct {
	Pipeline  string
	Topics    []string // by Emit.Output
	DeadTopic string
	LateTopic string
	Ends      Ends
	Ordered   bool // events are copies, read in the order of their sources
	DeadByKey bool // the dead-letter topic may have more partitions than the event's topic
	Schema    *value.Schema
	ID        value.Slot // slot of the event id
	Models    []byte     // value of header.Models; nil without models
	MaxBytes  int        // a larger output is refused
	Headers   bool       // headers of events are read
}

// Event is an event together with the data for its records.
type Event struct {
	operator.Event
	Origin   *Origin
	Failure  *Failure
	Written  int                  // bytes of its outputs
	Owed     uint64               // emits, by index, that were too large
	Attempts int                  // attempts at its newest stage, if there were more than one
	Attempt  int                  // number of the attempt with a partial answer, from 1; otherwise 0
	Answered bool                 // an earlier transaction has the reply to its client
	Return   *deadletter.Return   // set if the event was a dead letter before
	Place    *deadletter.Position // where the event was made of others; nil for an event of the log
	Source   *deadletter.Position // source of a copy, or of the first event that it is made of; nil if the pipeline reads no copies
	timer    bool
	rows     []made
}

// read returns where the pipeline read the event, or made it of others.
func (e *Event) read() deadletter.Position {
	if e.Place != nil {
		return *e.Place
	}
	return deadletter.Position{Partition: e.Record.Partition, Offset: e.Record.Offset}
}

// From returns where the event was first read.
func (e *Event) From() deadletter.Position {
	switch {
	case e.Return != nil:
		return e.Return.Origin
	case e.Source != nil:
		return *e.Source
	}
	return e.read()
}

// Origin is the partition that events come from.
type Origin struct {
	Index      int32
	Provenance []byte // value of header.Pipeline
}

// Failure says why and where an event failed and became a dead letter.
type Failure struct {
	Stage  string
	At     int // number of the operator in the plan, from 1; 0 if it failed outside the operators
	Err    error
	Resume string // resume header for the event when it is sent back; "" if it cannot be resumed
}

// Writer is the transaction that is being built, with the memory of its records.
type Writer struct {
	stream.Transaction
	Form        *Form
	Dead        int             // number of dead letters among the outputs
	Between     int             // number of outputs between the pipeline and its stages, and of notes about its order or watermarks
	Approximate int             // number of outputs with header.Approximate
	Bytes       []byte          // bytes of outputs and changes; a slice of them stays valid when it grows
	Headers     []stream.Header // headers of outputs; a slice of them stays valid when it grows
	carried     int             // bytes of outputs that are not in Bytes: dead letters
}

// NewWriter returns a writer with an empty transaction.
func NewWriter(form *Form) Writer {
	return Writer{Form: form, Transaction: stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}}
}

// Carry adds bytes that the transaction takes in the log in addition to Bytes.
func (w *Writer) Carry(bytes int) { w.carried += bytes }

// Size returns about how many bytes the transaction will take in the log.
func (w *Writer) Size() int { return len(w.Bytes) + w.carried }

// Reset returns a writer with an empty transaction that reuses the memory of w. The caller must not
// use w afterwards.
func (w *Writer) Reset() Writer {
	clear(w.Offsets)
	clear(w.Outputs) // release the memory that they point to
	clear(w.Changes)
	return Writer{
		Form: w.Form, Transaction: stream.Transaction{Outputs: w.Outputs[:0], Changes: w.Changes[:0], Offsets: w.Offsets},
		Bytes: w.Bytes[:0], Headers: w.Headers[:0],
	}
}

// Change appends a change of state. nil data deletes the key. The writer keeps key and data.
func (w *Writer) Change(p stream.Partition, key, data []byte) {
	w.Changes = append(w.Changes, stream.Change{Partition: p, Key: key, Value: data})
}

// CopyChange is Change for data that is valid only during the call.
func (w *Writer) CopyChange(p stream.Partition, key, data []byte) {
	if data != nil {
		at := len(w.Bytes)
		w.Bytes = append(w.Bytes, data...)
		data = w.Bytes[at:len(w.Bytes):len(w.Bytes)]
	}
	w.Change(p, key, data)
}

// ID returns the event's id: the id in its headers, or the position where it was first read. For a
// copy that is the position it was copied from.
func (w *Writer) ID(r *stream.Record) string {
	if id := header.IDOf(r); id != nil {
		return value.Text(id)
	}
	at := len(w.Bytes)
	w.Bytes = header.AppendPosition(w.Bytes, r.Partition, r.Offset)
	return value.Text(w.Bytes[at:])
}

// addID appends the header with the id of an output of an event.
func (w *Writer) addID(event, topic, step, output string) {
	at := len(w.Bytes)
	w.Bytes = header.AppendID(w.Bytes, w.Form.Pipeline, event, topic, step, output)
	w.Headers = append(w.Headers, stream.Header{Key: header.ID, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)]})
}

// Aside appends a late event unchanged to the topic of late events. If the event is too large with
// its added headers, it fails.
func (w *Writer) Aside(e *Event) {
	r, from := e.Record, len(w.Headers)
	w.addID(w.ID(r), w.Form.LateTopic, "", "")
	w.provenance(e)
	w.Headers = append(w.Headers, stream.Header{Key: header.Watermark, Value: time.UnixMicro(e.Watermark).UTC().AppendFormat(nil, time.RFC3339Nano)})
	w.Headers = header.AppendForeign(w.Headers, r.Headers)
	late := stream.Record{
		Partition: stream.Partition{Topic: w.Form.LateTopic, Index: e.Origin.Index},
		Time:      time.UnixMicro(e.Time), Key: r.Key, Value: r.Value, Headers: w.headersFrom(from),
	}
	if err := w.fits(&late); err != nil {
		w.Headers = w.Headers[:from]
		e.Failure = &Failure{Stage: "late", Err: err}
		return
	}
	w.Outputs = append(w.Outputs, late)
	w.carried += len(r.Value) + header.Bytes(w.Headers[from:])
}

func (w *Writer) headersFrom(from int) []stream.Header {
	return w.Headers[from:len(w.Headers):len(w.Headers)]
}

// ofEventMax limits the outputs of one event together to this multiple of the largest output. So
// the transaction of one event fits in a frame of the log.
const ofEventMax = 4

// room returns an error if the event may not write size more bytes.
func (w *Writer) room(e *Event, size int, topic string) error {
	if e.Written += size; size > w.Form.MaxBytes || e.Written > ofEventMax*w.Form.MaxBytes {
		return fmt.Errorf("output of %d bytes for %s is over the limit of %d, or all outputs of the event are over %d times that limit", size, topic, w.Form.MaxBytes, ofEventMax)
	}
	return nil
}

// fits returns an error if a record with its key and headers is too large for the log.
func (w *Writer) fits(r *stream.Record) error {
	beside := len(r.Key) + header.Bytes(r.Headers)
	if limit := w.Form.MaxBytes + RecordRoom; beside+len(r.Value) > limit {
		return fmt.Errorf("output of %d bytes for %s has %d bytes of key and headers: the limit of all is %d", len(r.Value), r.Partition.Topic, beside, limit)
	}
	return nil
}

// Emit appends one output record. If the record is too large or cannot be encoded, the event fails
// instead.
func (w *Writer) Emit(e *operator.Emit, of *Event) {
	w.Outputs = append(w.Outputs, stream.Record{})
	err := w.record(e, of, &w.Outputs[len(w.Outputs)-1])
	if err == nil {
		return
	}
	w.Outputs = w.Outputs[:len(w.Outputs)-1]
	of.Owed |= 1 << e.Index
	if of.Failure == nil {
		of.Failure = &Failure{Stage: "emit", Err: err}
	}
}

// Row makes the record of a table that the pipeline looks up, and returns its value. So the next
// event of the key finds it. Emit appends the record later, in order. A deleted row has no value.
// ok is false if the record is too large.
func (w *Writer) Row(e *operator.Emit, of *Event) (data []byte, ok bool) {
	row := made{emit: e}
	row.err = w.record(e, of, &row.record)
	if of.rows = append(of.rows, row); row.err != nil {
		return nil, false
	}
	w.Carry(len(of.Record.Key) + len(row.record.Value))
	return bytes.Clone(row.record.Value), true
}

// made is a record that Row made, or the error that it is too large.
type made struct {
	emit   *operator.Emit
	record stream.Record
	err    error
}

// record makes the record of an emit for an event, unless Row made it.
func (w *Writer) record(e *operator.Emit, of *Event, record *stream.Record) error {
	for i := range of.rows {
		if m := &of.rows[i]; m.emit == e {
			*record = m.record
			return m.err
		}
	}
	at, headers := len(w.Bytes), len(w.Headers)
	err := w.emitted(e, of, record)
	if err != nil {
		w.Bytes, w.Headers = w.Bytes[:at], w.Headers[:headers]
	}
	return err
}

func (w *Writer) emitted(e *operator.Emit, of *Event, record *stream.Record) error {
	at := len(w.Bytes)
	b, size := w.Bytes, 0
	if !e.Deletes(of.Row) {
		var err error
		if b, size, err = e.AppendRecord(w.Bytes, of.Row, w.Form.MaxBytes); err != nil {
			return err
		}
		record.Value = b[at:len(b):len(b)]
	}
	w.Bytes = b
	record.Partition = stream.Partition{Topic: w.Form.Topics[e.Output], Index: of.Origin.Index}
	record.Time = time.UnixMicro(of.Time)
	if err := w.room(of, size, record.Partition.Topic); err != nil {
		return err
	}
	at = len(w.Bytes)
	if e.Key != nil {
		record.Partition.Index = stream.ByKey
		w.Bytes = of.Row.AppendKey(w.Bytes, *e.Key)
	} else { // a copy, because the event's own key would keep the memory of the whole read
		w.Bytes = append(w.Bytes, of.Record.Key...)
	}
	if e.Key != nil || of.Record.Key != nil {
		record.Key = w.Bytes[at:len(w.Bytes):len(w.Bytes)]
	}
	from := len(w.Headers)
	w.emitID(e, of)
	w.provenance(of)
	w.context(of)
	record.Headers = w.headersFrom(from)
	return w.fits(record)
}

// emitID appends the header with the id of an emit's output. The id comes from the pipeline file,
// or from the event and the topic.
func (w *Writer) emitID(e *operator.Emit, of *Event) {
	if e.ID == nil {
		w.addID(of.Row.Text(w.Form.ID), w.Form.Topics[e.Output], e.Name, "")
		return
	}
	w.Headers = append(w.Headers, stream.Header{Key: header.ID, Value: header.Shorten([]byte(of.Row.Text(*e.ID)), 0)})
}

// Call appends the records that a function wrote for an event or timer with an id, a key and a
// time. step is the name of the calling step, or "". Call returns an error if a record is too
// large.
func (w *Writer) Call(outputs []udf.Output, e *Event, id, step, key string, at int64) error {
	for _, o := range outputs {
		if err := w.room(e, len(o.Value), o.Topic); err != nil {
			return err
		}
		record := stream.Record{
			Partition: stream.Partition{Topic: o.Topic, Index: e.Origin.Index},
			Time:      time.UnixMicro(at), Key: []byte(key), Value: o.Value,
		}
		if o.Key != "" {
			record.Partition.Index, record.Key = stream.ByKey, []byte(o.Key)
		}
		from := len(w.Headers)
		if o.ID == "" {
			w.addID(id, o.Topic, step, o.Name)
		} else {
			w.Headers = append(w.Headers, stream.Header{Key: header.ID, Value: header.Shorten([]byte(o.ID), 0)})
		}
		if e.Attempt > 0 {
			w.Headers = append(w.Headers, stream.Header{Key: header.Attempt, Value: strconv.AppendInt(nil, int64(e.Attempt), 10)})
		}
		w.provenance(e)
		w.context(e)
		record.Headers = w.headersFrom(from)
		if err := w.fits(&record); err != nil {
			w.Headers = w.Headers[:from]
			return err
		}
		w.Outputs = append(w.Outputs, record)
		w.carried += len(o.Value)
	}
	return nil
}

// context appends the headers that link outputs to their event.
func (w *Writer) context(e *Event) {
	from := len(w.Headers)
	if w.Headers = observe.AppendContext(w.Headers, w.Form.Pipeline, e.Record); len(w.Headers) > from {
		w.carried += header.Bytes(w.Headers[from:])
	}
}

// provenance appends the headers that say what an output was made from.
func (w *Writer) provenance(e *Event) {
	if !e.timer || !w.Form.Ordered { // a timer has no source
		from, at := e.From(), len(w.Bytes)
		w.Bytes = header.AppendPosition(w.Bytes, from.Partition, from.Offset)
		w.Headers = append(w.Headers, stream.Header{Key: header.Position, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)]})
	}
	if w.Form.Ordered {
		w.number(e.read())
	}
	if w.Form.Models != nil {
		w.Headers = append(w.Headers, stream.Header{Key: header.Models, Value: w.Form.Models})
	}
	w.Headers = append(w.Headers, stream.Header{Key: header.Pipeline, Value: e.Origin.Provenance})
	if e.Approximate != nil {
		w.Headers = append(w.Headers, stream.Header{Key: header.Approximate, Value: []byte(strings.Join(e.Approximate, ", "))})
		w.Approximate++
	}
	if e.Fallback != nil {
		w.Headers = append(w.Headers, stream.Header{Key: header.Fallback, Value: []byte(strings.Join(e.Fallback, ", "))})
	}
}

// number appends the header with the place of an event in the order of its partition.
func (w *Writer) number(place deadletter.Position) {
	at := len(w.Bytes)
	w.Bytes = strconv.AppendInt(w.Bytes, int64(place.Index), 10)
	w.Bytes = strconv.AppendInt(append(w.Bytes, '@'), int64(place.Offset), 10)
	w.Headers = append(w.Headers, stream.Header{Key: header.Repartition, Value: w.Bytes[at:len(w.Bytes):len(w.Bytes)]})
}

// DeadLetter appends the dead letter of an event. It has the event's original bytes. Its headers
// hold the data that was known when the event failed.
func (w *Writer) DeadLetter(e *Event) {
	r, from := e.Record, len(w.Headers)
	add := func(key, value string) {
		w.Headers = append(w.Headers, stream.Header{Key: key, Value: []byte(value)})
	}
	event, key, left := w.ID(r), r.Key, []string(nil)
	w.addID(event, w.Form.DeadTopic, "", "")
	if len(event)+len(key) > w.Form.MaxBytes { // otherwise the other headers would have no room
		event, key, left = cut(event, 4<<10), key[:min(len(key), 4<<10)], []string{"id and key"}
	}
	add(header.Event, event)
	w.provenance(e)
	add(header.Stage, e.Failure.Stage)
	add(header.Error, cut(e.Failure.Err.Error(), 4<<10))
	attempts := max(1, e.Attempts)
	if e.Return != nil {
		attempts += e.Return.Attempts
	}
	add(header.Attempts, strconv.Itoa(attempts))
	w.ending(e.Failure)
	if e.Failure.Resume != "" {
		add(header.Resume, e.Failure.Resume)
	}
	if source := header.SourceOf(r); source != "" {
		add(header.Copied, cut(source, 4<<10))
	}
	if e.Time != Never && e.Watermark != Never {
		add(header.Watermark, time.UnixMicro(e.Watermark).UTC().Format(time.RFC3339Nano))
	}
	value := r.Value
	room := max(0, w.Form.MaxBytes+deadLetterRoom-len(key)-header.Bytes(w.Headers[from:]))
	if len(value) > room {
		value, left = value[:room], append(left, "value")
	}
	room -= len(value)
	at := len(w.Bytes)
	if e.Row.Bytes(w.Form.Schema) <= room { // the JSON of the row is larger than this
		w.Bytes = expression.AppendRow(w.Bytes, e.Row, w.Form.Schema)
	}
	if row := w.Bytes[at:len(w.Bytes):len(w.Bytes)]; len(row) > 0 && len(row)+len(header.Row) <= room {
		w.Headers = append(w.Headers, stream.Header{Key: header.Row, Value: row})
		room -= len(row) + len(header.Row)
	} else {
		w.Bytes, left = w.Bytes[:at], append(left, "row")
	}
	if header.Bytes(r.Headers) <= room {
		w.Headers = header.AppendForeign(w.Headers, r.Headers)
	} else if w.Form.Headers {
		left = append(left, "read headers")
	} else {
		left = append(left, "headers")
	}
	if left != nil {
		add(header.Truncated, strings.Join(left, ", "))
	}
	when := r.Time
	if e.Time != Never {
		when = time.UnixMicro(e.Time)
	}
	to := stream.Partition{Topic: w.Form.DeadTopic, Index: e.Origin.Index}
	if w.Form.DeadByKey {
		to.Index = stream.ByKey
	}
	w.Outputs = append(w.Outputs, stream.Record{Partition: to, Time: when, Key: key, Value: value, Headers: w.headersFrom(from)})
	w.Dead++
	w.carried += len(value) + header.Bytes(w.Headers[from:])
}

// ending appends the headers that tell the client of an event how it ended, if the failure is not
// the event's fault.
func (w *Writer) ending(f *Failure) {
	var ending *deadletter.Ending
	if errors.As(f.Err, &ending) {
		w.Headers = append(w.Headers, stream.Header{Key: header.Code, Value: []byte(ending.Code)},
			stream.Header{Key: header.After, Value: strconv.AppendInt(nil, ending.After.Milliseconds(), 10)})
	}
}

// DeadTimer appends the dead letter of a failed timer with an id and a key. e is the result of
// Timer.
func (w *Writer) DeadTimer(e Event, key, name, id string, err error) {
	e.Record = &stream.Record{
		Partition: e.Record.Partition, Offset: e.Record.Offset, Time: time.UnixMicro(e.Time),
		Key: []byte(key), Value: []byte(name), Headers: []stream.Header{{Key: header.ID, Value: []byte(id)}},
	}
	e.Row = &w.Form.Schema.NewRows(1)[0]
	e.Failure = &Failure{Stage: "timer", Err: err}
	w.DeadLetter(&e)
}

// RecordRoom is how much larger a record may be than the largest value. deadLetterRoom is how much
// larger a dead letter may be than an output.
const RecordRoom, deadLetterRoom = 64 << 10, 60 << 10

// cut returns the start of s, at most n bytes, in whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Copy appends the copy of an event to the repartition topic. Its key is a field of the event, and
// it has its place in the order. If the copy is too large with its headers, the event fails.
func (w *Writer) Copy(e *Event, key value.Slot, c *order.Copy, asked []byte) {
	r, from, start := e.Record, len(w.Headers), len(w.Bytes)
	w.placed(r, c)
	if asked != nil {
		w.Headers = append(w.Headers, stream.Header{Key: header.Asked, Value: asked})
	}
	w.Headers = header.AppendCarried(w.Headers, r.Headers)
	at := len(w.Bytes)
	w.Bytes = e.Row.AppendKey(w.Bytes, key)
	made := stream.Record{
		Partition: stream.Partition{Topic: w.Form.Topics[0], Index: stream.ByKey},
		Time:      time.UnixMicro(e.Time), Key: w.Bytes[at:len(w.Bytes):len(w.Bytes)], Value: r.Value, Headers: w.headersFrom(from),
	}
	if err := w.fits(&made); err != nil {
		w.Bytes, w.Headers = w.Bytes[:start], w.Headers[:from]
		e.Failure = &Failure{Stage: "source", Err: err}
		return
	}
	w.Outputs = append(w.Outputs, made)
	w.carried += len(r.Value) + header.Bytes(w.Headers[from+2:])
}

// Pass appends a client's cancel of an event, with its place in the order. It writes the record to
// every partition of the repartition topic, because the event's key there is not known.
func (w *Writer) Pass(e *Event, partitions int32, c *order.Copy) {
	at := len(w.Bytes)
	w.Bytes = c.Append(w.Bytes)
	place := w.Bytes[at:len(w.Bytes):len(w.Bytes)]
	for i := range partitions {
		headers := []stream.Header{{Key: header.Cancel, Value: header.Value(e.Record, header.Cancel)}, {Key: header.Order, Value: place}}
		w.Outputs = append(w.Outputs, stream.Record{Partition: stream.Partition{Topic: w.Form.Topics[0], Index: i}, Time: e.Record.Time, Headers: headers})
		w.carried += header.Bytes(headers)
	}
}

// placed appends the headers of a copy, or of an ask, that have its source and its place in the
// order.
func (w *Writer) placed(r *stream.Record, c *order.Copy) {
	start := len(w.Bytes)
	w.Bytes = header.AppendPosition(w.Bytes, r.Partition, r.Offset)
	end := len(w.Bytes)
	w.Bytes = c.Append(w.Bytes)
	w.Headers = append(w.Headers, stream.Header{Key: header.Source, Value: w.Bytes[start:end:end]},
		stream.Header{Key: header.Order, Value: w.Bytes[end:len(w.Bytes):len(w.Bytes)]})
}

// Note appends a note about the order to its topic, with the given time.
func (w *Writer) Note(topic string, at time.Time, note interface{ Append(to []byte) []byte }) {
	from := len(w.Bytes)
	w.Bytes = note.Append(w.Bytes)
	w.Outputs = append(w.Outputs, stream.Record{Partition: stream.Partition{Topic: topic}, Time: at, Value: w.Bytes[from:len(w.Bytes):len(w.Bytes)]})
	w.Between++
}

// Marks appends marks of source partitions to every partition of the repartition topic and of the
// topics of asks.
func (w *Writer) Marks(marks order.Marks, partitions int32, asks []string) {
	newest := int64(0)
	for _, m := range marks {
		newest = max(newest, m.Key.Time)
	}
	for _, topic := range append([]string{w.Form.Topics[0]}, asks...) {
		for i := range partitions {
			w.mark(marks, stream.Partition{Topic: topic, Index: i}, newest)
		}
	}
}

func (w *Writer) mark(marks order.Marks, p stream.Partition, at int64) {
	r := marks.Record(p, time.UnixMicro(at))
	w.Outputs = append(w.Outputs, r)
	w.carried += header.Bytes(r.Headers)
}

// Watermark appends the watermark of a partition to a partition of the topic of watermarks.
func (w *Writer) Watermark(at int64, to stream.Partition) {
	w.mark(order.Marks{{Key: order.Key{Time: at}, Silent: order.NoMark.Silent}}, to, at)
	w.Between++
}
