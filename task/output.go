package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// id returns the event's id: the one it brought, or its position.
func (w *worker) id(r *stream.Record) string {
	for i := range r.Headers {
		if r.Headers[i].Key == header.ID {
			return value.Text(r.Headers[i].Value)
		}
	}
	at := len(w.step.bytes)
	b := append(w.step.bytes, w.plan.Name...)
	b = strconv.AppendInt(append(b, ':'), int64(r.Partition.Index), 10)
	b = strconv.AppendInt(append(b, ':'), int64(r.Offset), 10)
	w.step.bytes = b
	return value.Text(b[at:])
}

// markEmit evaluates at its place what can fail about an emit, and notes that the
// record is to be made.
func markEmit(e *step.Emit, it *item) error {
	if wanted, err := step.Holds(e.When, it.row); err != nil || !wanted {
		return err
	}
	if err := step.AssignAll(e.Compute, it.row); err != nil {
		return err
	}
	it.emits |= 1 << e.Index
	return nil
}

// output makes the records of the chunk in position order.
func (w *worker) output() {
	fired := 0
	for i := range w.items {
		it := &w.items[i]
		fired = w.writeFirings(fired, i, it)
		if w.plan.Copy != nil {
			w.copy(it)
		}
		for _, stage := range w.plan.writers {
			switch {
			case stage.Call != nil:
				w.writeOutputs(stage.Call, it)
			case it.emits>>stage.Emit.Index&1 != 0:
				w.emit(stage.Emit, it)
			}
		}
		if it.aside {
			w.aside(it)
		}
		if it.failure != nil {
			w.deadLetter(it)
		}
		if w.options.Observe != nil && !it.notice && !it.held {
			w.options.Observe(it.observed())
		}
	}
	clear(w.firings)
	w.firings = w.firings[:0]
}

// observed is what is told of an event.
func (it *item) observed() *Observed {
	o := &Observed{
		Record: it.record, Row: it.row, Time: timeOrZero(it.time), Watermark: timeOrZero(it.watermark),
		Late: it.late, Dropped: it.skip,
	}
	if it.failure != nil {
		o.Stage, o.Err = it.failure.stage, it.failure.err
	}
	return o
}

// writeOutputs makes the records that a function wrote for an event.
func (w *worker) writeOutputs(c *step.Call, it *item) {
	for _, made := range it.called {
		if made.call != c {
			continue
		}
		id := it.row.Text(w.plan.Meta.ID) + ":" + c.Name
		if err := w.writeCalled(it, c, id, value.Text(it.record.Key), it.time, made.outputs); err != nil && it.failure == nil {
			it.fail("call", err)
		}
	}
}

// aside appends a late event as it came to the topic of late events.
func (w *worker) aside(it *item) {
	s, r := w.step, it.record
	from := len(s.headers)
	s.headers = append(s.headers, stream.Header{Key: header.ID, Value: []byte(w.id(r))})
	w.provenance(it)
	s.headers = append(s.headers, stream.Header{Key: header.Watermark, Value: time.UnixMicro(it.watermark).UTC().AppendFormat(nil, time.RFC3339Nano)})
	s.headers = header.AppendForeign(s.headers, r.Headers)
	s.Outputs = append(s.Outputs, stream.Record{
		Partition: stream.Partition{Topic: w.plan.Outputs[w.plan.Time.LateOutput], Index: it.partition.index},
		Time:      time.UnixMicro(it.time), Key: r.Key, Value: r.Value, Headers: s.headers[from:len(s.headers):len(s.headers)],
	})
	s.carried += len(r.Value) + header.Bytes(s.headers[from:])
}

// outputsOfEventMax times the largest output is what the outputs of one event
// may take together, so that a step of one event fits in a frame of the log.
const outputsOfEventMax = 4

// emit appends one output record to the step. One that is too large becomes a
// dead letter instead.
func (w *worker) emit(e *step.Emit, it *item) {
	s := w.step
	at := len(s.bytes)
	b := append(s.bytes, '{')
	for i, slot := range e.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e.Names[i]...)
		b = expression.AppendValue(b, it.row, slot)
	}
	b = append(b, '}')
	s.bytes = b
	record := stream.Record{
		Partition: stream.Partition{Topic: w.plan.Outputs[e.Output], Index: it.partition.index},
		Time:      time.UnixMicro(it.time), Value: b[at:len(b):len(b)],
	}
	if it.written += len(record.Value); len(record.Value) > w.options.OutputMaxBytes || it.written > outputsOfEventMax*w.options.OutputMaxBytes {
		s.bytes = b[:at]
		if it.failure == nil {
			it.fail("emit", w.tooLarge(len(record.Value), record.Partition.Topic))
		}
		return
	}
	at = len(s.bytes)
	if e.Key != nil {
		record.Partition.Index = stream.ByKey
		s.bytes = appendKey(s.bytes, it.row, *e.Key)
	} else { // a copy: the event's own would keep all that it was read with
		s.bytes = append(s.bytes, it.record.Key...)
	}
	if e.Key != nil || it.record.Key != nil {
		record.Key = s.bytes[at:len(s.bytes):len(s.bytes)]
	}
	from := len(s.headers)
	s.headers = append(s.headers, stream.Header{Key: header.ID, Value: w.outputID(e, it)})
	w.provenance(it)
	record.Headers = s.headers[from:len(s.headers):len(s.headers)]
	s.Outputs = append(s.Outputs, record)
}

func (w *worker) tooLarge(size int, topic string) error {
	return fmt.Errorf("output of %d bytes for %s is over the limit of %d, or those of the event over %d times that", size, topic, w.options.OutputMaxBytes, outputsOfEventMax)
}

func (w *worker) outputID(e *step.Emit, it *item) []byte {
	s := w.step
	if e.ID != nil {
		return []byte(it.row.Text(*e.ID))
	}
	at := len(s.bytes)
	s.bytes = append(append(s.bytes, it.row.Text(w.plan.Meta.ID)...), ':')
	s.bytes = strconv.AppendInt(s.bytes, int64(e.Index), 10)
	return s.bytes[at:len(s.bytes):len(s.bytes)]
}

// provenance appends the headers that say what an output was made from.
func (w *worker) provenance(it *item) {
	s, r := w.step, it.record
	at := len(s.bytes)
	b := append(append(s.bytes, r.Partition.Topic...), '/')
	b = strconv.AppendInt(b, int64(r.Partition.Index), 10)
	b = strconv.AppendInt(append(b, '@'), int64(r.Offset), 10)
	s.bytes = b
	s.headers = append(s.headers, stream.Header{Key: header.Position, Value: b[at:len(b):len(b)]})
	if w.plan.models != nil {
		s.headers = append(s.headers, stream.Header{Key: header.Models, Value: w.plan.models})
	}
	s.headers = append(s.headers, stream.Header{Key: header.Pipeline, Value: it.partition.provenance})
	if it.approximate != nil {
		s.headers = append(s.headers, stream.Header{Key: header.Approximate, Value: []byte(strings.Join(it.approximate, ", "))})
		w.metrics.Approximate.Add(1)
	}
}

// deadLetter appends the record that an event became: its bytes as they came,
// with what was known when it failed in the headers.
func (w *worker) deadLetter(it *item) {
	s, r := w.step, it.record
	from := len(s.headers)
	add := func(key, value string) {
		s.headers = append(s.headers, stream.Header{Key: key, Value: []byte(value)})
	}
	add(header.ID, w.id(r))
	w.provenance(it)
	add(header.Stage, it.failure.stage)
	add(header.Error, cut(it.failure.err.Error(), 4<<10))
	add(header.Attempts, "1")
	if it.time != never && it.watermark != never {
		add(header.Watermark, time.UnixMicro(it.watermark).UTC().Format(time.RFC3339Nano))
	}
	value := r.Value
	room := w.options.OutputMaxBytes + deadLetterRoom - len(r.Key) - header.Bytes(s.headers[from:])
	var left []string
	if len(value) > room {
		value, left = value[:room], append(left, "value")
	}
	room -= len(value)
	at := len(s.bytes)
	s.bytes = expression.AppendRow(s.bytes, it.row, w.plan.Schema)
	if row := s.bytes[at:len(s.bytes):len(s.bytes)]; len(row)+len(header.Row) <= room {
		s.headers = append(s.headers, stream.Header{Key: header.Row, Value: row})
		room -= len(row) + len(header.Row)
	} else {
		s.bytes, left = s.bytes[:at], append(left, "row")
	}
	if header.Bytes(r.Headers) <= room {
		s.headers = header.AppendForeign(s.headers, r.Headers)
	} else {
		left = append(left, "headers")
	}
	if left != nil {
		add(header.Truncated, strings.Join(left, ", "))
	}
	when := r.Time
	if it.time != never {
		when = time.UnixMicro(it.time)
	}
	s.Outputs = append(s.Outputs, stream.Record{
		Partition: stream.Partition{Topic: w.plan.DeadTopic, Index: w.deadPartition(it)},
		Time:      when, Key: r.Key, Value: value,
		Headers: s.headers[from:len(s.headers):len(s.headers)],
	})
	s.dead++
	s.carried += len(value) + header.Bytes(s.headers[from:])
}

// deadPartition is that of the event; but a topic that is copied may have more
// partitions than those that the pipeline writes.
func (w *worker) deadPartition(it *item) int32 {
	if w.plan.Copy != nil {
		return stream.ByKey
	}
	return it.partition.index
}

// What a record may be larger than the largest value, and a dead letter than an output.
const recordRoom, deadLetterRoom = 64 << 10, 60 << 10

// cut returns the first n bytes of s, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
