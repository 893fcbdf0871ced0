package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Labels defines the source of labels and how they join the rows. Source "" means no labels.
type Labels struct {
	Source  string        // file of labels, NDJSON or CSV, or topic:NAME in the log
	On      string        // join key: a name of the rows, or NAME=FIELD if the field of the labels has another name
	Time    string        // field with the time when a label was known, or FIELD:UNIT; "" is the time of the append to the topic
	Label   string        // field of the label, or FIELD:TYPE; the default type is number
	Horizon time.Duration // after the event; labels known later are ignored
	AsOf    string        // RFC 3339; rows younger than Horizon at that time are left out; "" is the time of the newest label not in the future
}

// labels holds the labels, by key and time.
type labels struct {
	Labels
	program *dryrun.Program
	open    func() (inspect.Directory, func() error, error)
	counts  *LabelCounts
	sorter  sorter

	on     value.Slot // join key in the rows
	slot   value.Slot // label in the rows
	asOf   int64      // in microseconds
	known  bool       // the options set asOf
	now    int64      // labels known later are ignored; in microseconds
	newest place      // place of the label that determined asOf, if the options did not

	scanner            *decode.Scanner
	row                value.Row
	key, label         value.Slot // slots of row
	at                 operator.EventTime
	taken              int64 // number of labels
	buffer, bufferText []byte
}

// label is a label with the time when it was known.
type label struct {
	on    []byte // in the form of appendOn
	known int64
	value []byte // nil retracts an earlier label
	used  bool
}

var units = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond, "rfc3339": 0}

// newLabels checks the options, and adds the label to the schema of the rows. It returns nil if
// there are no labels.
func newLabels(program *dryrun.Program, o *Options, schema *value.Schema) (*labels, error) {
	l := &labels{Labels: o.Labels, program: program, open: o.Open, asOf: math.MinInt64, now: math.MaxInt64}
	if l.Source == "" {
		if l.Labels != (Labels{}) {
			return nil, failure.Usage("name the labels with --labels FILE or --labels topic:NAME: --on, --label, --label-time, --horizon and --as-of need labels")
		}
		return nil, nil
	}
	topic := strings.HasPrefix(l.Source, "topic:")
	switch {
	case l.On == "" || l.Label == "" || l.Horizon <= 0:
		return nil, failure.Usage("--labels %s: add --on NAME (the name that rows and labels share), --label FIELD (the label) and --horizon (how long after the event a label counts, such as 30d)", l.Source)
	case l.Time == "" && !topic:
		return nil, failure.Usage("--labels %s: name the field with the time of a label with --label-time FIELD: without it, a row could get a label from its future", l.Source)
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
	if !o.Now.IsZero() {
		l.now = o.Now.UnixMicro()
	}
	return l, l.declare(schema)
}

// declare adds the fields of a label to a schema.
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
		fields = append(fields, decode.Field{Name: name, Slot: slot, Verbatim: true})
		return slot
	}
	key := value.String // also for an int: 7 and "7" are the same key
	if l.on.Type.Kind == value.Bytes {
		key = value.Bytes
	}
	l.key = add(field, value.Type{Kind: key})
	l.label = add(name, l.slot.Type)
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

// appendSized appends a text after its size, so that no encoded text is a prefix of another.
func appendSized(dst, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}

// appendOn appends the join key of a row. A row without a value for it has no label.
func (l *labels) appendOn(dst []byte, row *value.Row) []byte {
	if !row.Has(l.on) {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32)
	}
	return appendSized(dst, row.AppendKey(nil, l.on))
}

// split splits a key into the part of appendOn and the rest.
func split(key []byte) (on, rest []byte) {
	size := 4
	if n := binary.BigEndian.Uint32(key); n != math.MaxUint32 {
		size += int(n)
	}
	return key[:size], key[size:]
}

// join calls each with every row and its label, by key and place. The label is the newest one
// that became known between the event and the horizon. Of two labels of the same time, the later
// one in the source counts. A label that retracts an earlier one has the value nil.
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
		if ahead = (&label{on: on, known: timeOf(rest)}); len(e.value) > 0 {
			ahead.value = e.value[1:]
		}
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

// store sets the label of a row.
func (b *label) store(row *value.Row, slot value.Slot) {
	if slot.Type.Kind.Text() {
		row.SetText(slot, value.Text(b.value))
		return
	}
	row.SetInt(slot, int64(binary.LittleEndian.Uint64(b.value)))
}
