package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Labels say what the labels of rows are. Source "" is none.
type Labels struct {
	Source  string        // file of labels, NDJSON or CSV, or topic:NAME in the log
	On      string        // name of the rows, and with =FIELD the field of the labels, that say which belong together
	Time    string        // field that says when a label was known, and with :UNIT how; "" is the append to the topic
	Label   string        // field of the label, and with :TYPE its type; number is the default
	Horizon time.Duration // after the event: a label that is known later is not one
	AsOf    string        // RFC 3339; rows younger than Horizon then are left out; "" is when the newest label was known
}

// labels are the labels by key and time.
type labels struct {
	Labels
	program *dryrun.Program
	open    func() (inspect.Directory, func() error, error)
	counts  *LabelCounts
	sorter  sorter

	on    value.Slot // of the rows
	slot  value.Slot // of the rows: the label
	asOf  int64      // in microseconds
	known bool       // asOf was said

	scanner            *decode.Scanner
	row                value.Row
	key, label         value.Slot // of row
	at                 operator.EventTime
	number             int64 // records read
	buffer, bufferText []byte
}

// label is a label and when it was known.
type label struct {
	on    []byte // as appendOn appends it
	known int64
	value []byte
	used  bool
}

var units = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond, "rfc3339": 0}

// newLabels checks the options, and adds the label to the schema of the rows. It returns nil
// without labels.
func newLabels(program *dryrun.Program, o *Options, schema *value.Schema) (*labels, error) {
	l := &labels{Labels: o.Labels, program: program, open: o.Open}
	if l.Source == "" {
		if l.Labels != (Labels{}) {
			return nil, failure.Usage("name the labels with --labels FILE or --labels topic:NAME: --on, --label, --label-time, --horizon and --as-of are about them")
		}
		return nil, nil
	}
	topic := strings.HasPrefix(l.Source, "topic:")
	switch {
	case l.On == "" || l.Label == "" || l.Horizon <= 0:
		return nil, failure.Usage("--labels %s: say which row a label belongs to with --on NAME, which field is the label with --label FIELD, and how long after the event it counts with --horizon, such as 30d", l.Source)
	case l.Time == "" && !topic:
		return nil, failure.Usage("--labels %s: say when a label was known with --label-time FIELD: without it a row could get a label that nobody had yet", l.Source)
	case topic && !o.FromLog:
		return nil, failure.Usage("--labels %s: a topic is in a log: use it with --from-data or --engine", l.Source)
	}
	if l.AsOf != "" {
		at, err := time.Parse(time.RFC3339Nano, l.AsOf)
		if err != nil {
			return nil, failure.Usage("--as-of %s: write a time like 2026-01-02T15:04:05Z", l.AsOf)
		}
		l.asOf, l.known = at.UnixMicro(), true
	}
	return l, l.declare(schema)
}

// declare makes the fields of a label.
func (l *labels) declare(schema *value.Schema) error {
	on, field, renamed := strings.Cut(l.On, "=")
	if !renamed {
		field = on
	}
	name, kind, typed := strings.Cut(l.Label, ":")
	if !typed {
		kind = "number"
	}
	typ, err := value.ParseType(kind)
	if err != nil || typ.Optional || typ.Kind == value.Vector || typ.Kind == value.Bytes {
		return failure.Usage("--label %s: the type is one of bool, int, number, string and time", l.Label)
	}
	var ok bool
	switch l.on, ok = schema.Lookup(on); {
	case !ok:
		return failure.Usage("--on %s: the rows have no such name", on)
	case l.on.Type.Kind != value.String && l.on.Type.Kind != value.Int && l.on.Type.Kind != value.Bytes:
		return failure.Usage("--on %s: it is a %s; labels belong to rows by a string or an int", on, l.on.Type.Kind)
	}
	if l.slot, err = schema.Add(name, value.Type{Kind: typ.Kind, Optional: true}); err != nil {
		return failure.Usage("--label %s: the rows have a value of that name", name)
	}
	var own value.Schema
	var fields []decode.Field
	add := func(name string, t value.Type) value.Slot {
		slot, failed := own.Add(name, t)
		err = errors.Join(err, failed)
		fields = append(fields, decode.Field{Name: name, Slot: slot})
		return slot
	}
	l.key = add(field, value.Type{Kind: l.on.Type.Kind})
	l.label = add(name, typ)
	if l.Time != "" {
		at, unit, said := strings.Cut(l.Time, ":")
		if !said {
			unit = "rfc3339"
		}
		size, ok := units[unit]
		if !ok {
			return failure.Usage("--label-time %s: the unit is one of s, ms, us, ns and rfc3339", l.Time)
		}
		kind := value.Time
		if size > 0 {
			kind = value.Number
		}
		l.at = operator.EventTime{FromField: true, Unit: size, Slot: add(at, value.Type{Kind: kind})}
	}
	if err != nil {
		return failure.Usage("--labels: on, label and time are different fields: %v", err)
	}
	l.scanner, l.row = decode.New(fields), own.NewRows(1)[0]
	return nil
}

// farthest is a time that no label is known after.
var farthest = time.UnixMicro(math.MaxInt64 / 1000)

// read sorts the labels by key and time.
func (l *labels) read(ctx context.Context) error {
	if name, ok := strings.CutPrefix(l.Source, "topic:"); ok {
		directory, end, err := l.open()
		if err != nil {
			return err
		}
		for r, failed := range directory.Records(ctx, inspect.Query{Topic: name, Partition: inspect.AllPartitions}) {
			if err = failed; err == nil {
				err = l.take(&r)
			}
			if err != nil {
				break
			}
		}
		if err = errors.Join(err, end()); err != nil {
			return fmt.Errorf("--labels: %w", err)
		}
	} else if err := l.readFile(ctx); err != nil {
		return fmt.Errorf("--labels: %w", err)
	}
	if !l.known && l.counts.Records == l.counts.Unreadable {
		return failure.Usage("--labels %s: it has no label that can be read%s: without any, say with --as-of until when labels are known", l.Source, l.first())
	}
	return nil
}

// first says which label cannot be read.
func (l *labels) first() string {
	if l.counts.First == "" {
		return ""
	}
	return " (" + l.counts.First + ")"
}

func (l *labels) readFile(ctx context.Context) error {
	source, err := l.program.Events(l.Source, "")
	if err != nil {
		return err
	}
	_, err = ingest.Publish(ctx, taker{l}, source, ingest.Options{Name: source.Name, Format: source.Format, Topic: "labels"})
	return errors.Join(err, source.Close())
}

// taker is an ingest.Appender.
type taker struct{ *labels }

// Append implements ingest.Appender.
func (t taker) Append(_ context.Context, records ...stream.Record) error {
	for i := range records {
		records[i].Time, records[i].Offset = farthest, stream.Offset(t.number)
		if err := t.take(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// AppendOnce implements ingest.Appender.
func (t taker) AppendOnce(ctx context.Context, _ string, _ int64, records ...stream.Record) (int, error) {
	return 0, t.Append(ctx, records...)
}

// take takes a label. One that cannot be read is counted.
func (l *labels) take(r *stream.Record) error {
	l.number++
	l.counts.Records++
	l.row.Reset()
	err := l.scanner.Scan(r.Value, &l.row)
	known := r.Time.UnixMicro()
	if err == nil && l.at.FromField {
		known, err = l.at.Of(&l.row, farthest, nil)
	}
	if err != nil {
		if l.counts.Unreadable++; l.counts.First == "" {
			l.counts.First = fmt.Sprintf("label %d: %v", l.number, err)
		}
		return nil
	}
	if !l.known {
		l.asOf = max(l.asOf, known)
	}
	key := appendSized(l.buffer[:0], l.row.AppendKey(nil, l.key))
	key = appendTime(key, known)
	key = binary.BigEndian.AppendUint32(key, uint32(max(r.Partition.Index, 0)))
	l.buffer = binary.BigEndian.AppendUint64(key, uint64(r.Offset))
	if l.label.Type.Kind.Text() {
		l.bufferText = append(l.bufferText[:0], l.row.Text(l.label)...)
	} else {
		l.bufferText = binary.LittleEndian.AppendUint64(l.bufferText[:0], l.row.Num[l.label.Index])
	}
	return l.sorter.add(l.buffer, l.bufferText)
}

// appendSized appends a text behind its size, so that no text is the beginning of another.
func appendSized(dst, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}

// appendOn appends what the labels of a row are found by. A row without the value has none.
func (l *labels) appendOn(dst []byte, row *value.Row) []byte {
	if !row.Has(l.on) {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32)
	}
	return appendSized(dst, row.AppendKey(nil, l.on))
}

// split returns what appendOn appended, and what is behind it.
func split(key []byte) (on, rest []byte) {
	size := 4
	if n := binary.BigEndian.Uint32(key); n != math.MaxUint32 {
		size += int(n)
	}
	return key[:size], key[size:]
}

// join calls each with the rows by key and place, and the label of each: the newest one that
// was known at the event or later, and within the horizon. Of two that were known at the same
// time the later one in the source counts.
func (l *labels) join(rows *sorter, each func(place, text []byte, label *label) error) error {
	next, stop := iter.Pull2(l.sorter.all())
	defer stop()
	var ahead, newest *label
	advance := func() error {
		if newest != nil && !newest.used {
			l.counts.Unused++
		}
		newest, ahead = ahead, nil
		e, err, ok := next()
		if err != nil || !ok {
			return err
		}
		on, rest := split(e.key)
		ahead = &label{on: on, known: timeOf(rest), value: e.value}
		return nil
	}
	if err := advance(); err != nil {
		return err
	}
	for e, err := range rows.all() {
		if err != nil {
			return err
		}
		on, place := split(e.key)
		at := timeOf(place)
		for ahead != nil && (bytes.Compare(ahead.on, on) < 0 || bytes.Equal(ahead.on, on) && ahead.known <= at+l.Horizon.Microseconds()) {
			if err := advance(); err != nil {
				return err
			}
		}
		var found *label
		if newest != nil && bytes.Equal(newest.on, on) && newest.known >= at {
			found, newest.used = newest, true
		}
		if err := each(place, e.value, found); err != nil {
			return err
		}
	}
	for ahead != nil {
		if err := advance(); err != nil {
			return err
		}
	}
	if newest != nil && !newest.used {
		l.counts.Unused++
	}
	return nil
}

// store puts a label into a row.
func (b *label) store(row *value.Row, slot value.Slot) {
	if slot.Type.Kind.Text() {
		row.SetText(slot, value.Text(b.value))
		return
	}
	row.SetInt(slot, int64(binary.LittleEndian.Uint64(b.value)))
}
