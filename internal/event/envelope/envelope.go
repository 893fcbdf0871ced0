// Package envelope reads records whose data stands in an envelope: change events of Debezium,
// and CloudEvents. A format decodes the data.
package envelope

import (
	"errors"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// Kind is a kind of envelopes, by its name in the pipeline file. The zero value is none: the
// value of a record is its data.
type Kind string

// The kinds.
const (
	None     Kind = ""
	Debezium Kind = "debezium"
)

// ErrTombstone is the error of a record that has no value, and is no event.
var ErrTombstone = errors.New("the record has no value")

// Reader reads the fields of records into their slots. It does not change, and is safe for
// concurrent use.
type Reader struct {
	kind Kind
	data decode.Decoder
	open opener         // nil reads the value of a record as data
	keys []decode.Field // that the key of a record is
}

// opener finds the data of a record, and reads what stands around it. at is where the data
// begins in the value of the record.
type opener interface {
	open(r *stream.Record, row *value.Row) (data []byte, at int, err error)
}

// New returns a reader of the fields of records whose data has a format.
func New(kind Kind, format decode.Format, fields []decode.Field) (*Reader, error) {
	var of [decode.FromKey + 1][]decode.Field
	for _, f := range fields {
		of[f.From] = append(of[f.From], f)
	}
	r := &Reader{kind: kind, keys: of[decode.FromKey]}
	around := of[decode.FromEnvelope]
	switch kind {
	case None:
		if len(around) > 0 {
			return nil, fmt.Errorf("field %q: records have no envelope", around[0].Name)
		}
	case Debezium:
		if _, json := format.(decode.JSON); !json {
			return nil, errors.New("change events of Debezium are read as JSON only")
		}
		r.open = newChanges(around)
	case CloudEvents:
		events, err := newCloudEvents(format, around)
		if err != nil {
			return nil, err
		}
		r.open = events
	}
	var err error
	r.data, err = format.Decoder(of[decode.FromData])
	if events, ok := r.open.(*cloudEvents); ok {
		events.looked = r.Preparer() != nil
	}
	return r, err
}

// Preparer returns what prepares the value of a record for the format of its data; nil if nothing
// is needed.
func (r *Reader) Preparer() decode.Preparer {
	p, _ := r.data.(decode.Preparer)
	return p
}

// Scan reads the fields of a record. The error is ErrTombstone or of type *decode.Error, and
// then the slots of the fields hold anything.
func (r *Reader) Scan(record *stream.Record, row *value.Row) error {
	if r.open == nil && r.keys == nil {
		return r.data.Scan(record.Value, row)
	}
	data, at := record.Value, 0
	if r.open != nil {
		var err error
		if data, at, err = r.open.open(record, row); err != nil {
			return err
		}
	}
	if err := r.data.Scan(data, row); err != nil {
		return r.explain(record, moved(err, at))
	}
	for i := range r.keys {
		f := &r.keys[i]
		if reason := f.SetText(r.kind.Key(record.Key), row); reason != "" {
			return &decode.Error{Field: f.Name, Reason: "the key of the record: " + reason}
		}
	}
	return nil
}

// explain adds to the error of a field that a deletion does not have what to do.
func (r *Reader) explain(record *stream.Record, err error) error {
	var wrong *decode.Error
	if r.kind != Debezium || !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "required") {
		return err
	}
	if c, err := changeOf(record.Value); err == nil && c.op == deleted {
		wrong.Reason += "; the event is a deletion, and before has not the whole row: make the field optional, or have the database log whole rows (REPLICA IDENTITY FULL)"
	}
	return wrong
}

// moved returns an error with its place in the value of the record.
func moved(err error, by int) error {
	var wrong *decode.Error
	if by > 0 && errors.As(err, &wrong) {
		wrong.Offset += by
	}
	return err
}

// Data returns the member of an envelope that its data is, but for deletions; "" without an
// envelope.
func (k Kind) Data() string {
	switch k {
	case Debezium:
		return "after"
	case CloudEvents:
		return "data"
	}
	return ""
}

// Key returns the text that events of the key of a record are keyed by. That of Debezium and
// of Kafka Connect may be JSON with a schema or without: a text, a number, or an object with one
// column. Another key is its own text.
func (k Kind) Key(key []byte) []byte {
	if k == Debezium {
		if text, ok := column(key); ok {
			return text
		}
	}
	return key
}

// part is the value of a member.
type part struct {
	text []byte // nil is none
	at   int
}

// is reports whether there is a value but null.
func (p part) is() bool { return p.text != nil && string(p.text) != "null" }

// named is where a member of an object goes.
type named struct {
	name string
	into *part
}

// members finds members of a JSON object, which begins at an offset of the record. The error is that
// of a second value. What else is wrong, the Walker says.
func members(object []byte, at int, wanted ...named) (decode.Walker, error) {
	walk := decode.Walk(object)
	for walk.Next() {
		for i := range wanted {
			m := &wanted[i]
			if string(walk.Name) != m.name {
				continue
			}
			if m.into.text != nil {
				return walk, &decode.Error{Field: m.name, Offset: at + walk.At, Reason: "a second value"}
			}
			*m.into = part{walk.Value, at + walk.At}
			break
		}
	}
	return walk, nil
}
