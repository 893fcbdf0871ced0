// Package envelope reads records that carry their data in an envelope: change events of Debezium,
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

// Kind is a kind of envelope, by its name in the pipeline file. The zero value means no envelope:
// the value of a record is its data.
type Kind string

// The kinds.
const (
	None     Kind = ""
	Debezium Kind = "debezium"
)

// ErrTombstone is the error for a record without a value. Such a record is not an event.
var ErrTombstone = errors.New("the record has no value")

// Reader reads the fields of records into their slots. It is immutable and safe for concurrent use.
type Reader struct {
	kind    Kind
	data    decode.Decoder
	open    opener            // nil reads the value of a record as data
	changes *encodedChanges   // set instead of data and open
	keys    []decode.Field    // fields that read the key of a record
	values  decode.Preparer   // prepares the values of records; nil if not needed
	texts   decode.Transcoder // for keys that begin with the id of a schema; nil without a schema registry
}

// opener finds the data of a record, and reads the fields of the envelope. at is the offset of the
// data in the value of the record.
type opener interface {
	open(r *stream.Record, row *value.Row) (data []byte, at int, err error)
}

// New returns a reader of the fields of records. format decodes the data.
func New(kind Kind, format decode.Format, fields []decode.Field) (*Reader, error) {
	var of [decode.FromKey + 1][]decode.Field
	for _, f := range fields {
		of[f.From] = append(of[f.From], f)
	}
	r := &Reader{kind: kind, keys: of[decode.FromKey]}
	if all, ok := format.(interface{ Transcoder() decode.Transcoder }); ok {
		r.texts = all.Transcoder()
	}
	around := of[decode.FromEnvelope]
	switch kind {
	case None:
		if len(around) > 0 {
			return nil, fmt.Errorf("field %q: records have no envelope", around[0].Name)
		}
	case Debezium:
		switch format.(type) {
		case decode.JSON:
		case decode.Text, decode.Raw:
			return nil, errors.New("change events of Debezium are JSON, Avro, or of a schema registry")
		default:
			var err error
			if r.changes, err = newEncodedChanges(format, of[decode.FromData], around); err == nil {
				r.values = preparerOf(r.changes.decoders()...)
			}
			return r, err
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
	r.values = preparerOf(r.data)
	if events, ok := r.open.(*cloudEvents); ok {
		events.looked = r.Prepares()
	}
	return r, err
}

// Prepares reports whether the values of records must be prepared.
func (r *Reader) Prepares() bool { return r.values != nil }

// Prepare prepares a record, as a decode.Preparer does.
func (r *Reader) Prepare(record *stream.Record, turn uint64, wake func()) (ready bool, why error) {
	ready = true
	if r.texts != nil && (r.keys != nil || r.kind != None) && decode.Framed(record.Key) {
		ready, why = r.texts.Prepare(record.Key, turn, wake)
	}
	if r.values != nil {
		known, fault := r.values.Prepare(record.Value, turn, wake)
		ready = ready && known
		if why == nil {
			why = fault
		}
	}
	return ready, why
}

// Scan reads the fields of a record. The error is ErrTombstone or of type *decode.Error. After an
// error the slots of the fields have undefined content.
func (r *Reader) Scan(record *stream.Record, row *value.Row) error {
	if r.open == nil && r.keys == nil && r.changes == nil {
		return r.data.Scan(record.Value, row)
	}
	if err := r.scan(record, row); err != nil || r.keys == nil {
		return err
	}
	return r.scanKey(record.Key, row)
}

// scan reads the fields in the value of a record.
func (r *Reader) scan(record *stream.Record, row *value.Row) error {
	if r.changes != nil {
		deletion, err := r.changes.scan(record.Value, row)
		return explain(deletion, err)
	}
	data, at := record.Value, 0
	if r.open != nil {
		var err error
		if data, at, err = r.open.open(record, row); err != nil {
			return err
		}
	}
	err := r.data.Scan(data, row)
	switch {
	case err == nil:
		return nil
	case r.kind != Debezium:
		return moved(err, at)
	}
	c, wrong := changeOf(record.Value)
	return explain(wrong == nil && c.op == deleted, moved(err, at))
}

// scanKey reads the fields in the key of a record.
func (r *Reader) scanKey(key []byte, row *value.Row) error {
	text, err := r.Key(key)
	for i := range r.keys {
		f := &r.keys[i]
		if err != nil {
			return &decode.Error{Field: f.Name, Reason: "the key of the record: " + err.Error()}
		}
		if reason := f.SetText(text, row); reason != "" {
			return &decode.Error{Field: f.Name, Reason: "the key of the record: " + reason}
		}
	}
	return nil
}

// explain adds advice to the error about a field that a deletion does not have.
func explain(deletion bool, err error) error {
	wrong, ok := errors.AsType[*decode.Error](err)
	if deletion && ok && strings.Contains(wrong.Reason, "required") {
		wrong.Reason += "; the event is a deletion, and before does not have the whole row: make the field optional, or set REPLICA IDENTITY FULL so that the database logs whole rows"
	}
	return err
}

// moved adds an offset to the position of an error.
func moved(err error, by int) error {
	var wrong *decode.Error
	if by > 0 && errors.As(err, &wrong) {
		wrong.Offset += by
	}
	return err
}

// Data returns the member of an envelope that contains the data, deletions excepted. It returns ""
// without an envelope.
func (k Kind) Data() string {
	switch k {
	case Debezium:
		return "after"
	case CloudEvents:
		return "data"
	}
	return ""
}

// Key returns the text that keys the events of a record with this key. A key of Debezium or Kafka
// Connect may be JSON, with or without a schema: a text, a number, or an object with one column. A
// key that begins with the id of a schema may have the same forms. Any other key is its own text.
func (r *Reader) Key(key []byte) ([]byte, error) {
	json := key
	if decode.Framed(key) && r.texts != nil {
		var err error
		if json, err = r.texts.AppendJSON(nil, key); err != nil {
			return nil, err
		}
	} else if r.kind != Debezium {
		return key, nil
	}
	if text, ok := column(json); ok {
		return text, nil
	}
	return json, nil
}

// part is the value of a member.
type part struct {
	text []byte // nil if the member is absent
	at   int
}

// is reports whether there is a value other than null.
func (p part) is() bool { return p.text != nil && string(p.text) != "null" }

// named names a member of an object, and where to store it.
type named struct {
	name string
	into *part
}

// members finds members of a JSON object that begins at an offset of the record. The error reports
// a member that occurs twice. The Walker reports all other errors.
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
