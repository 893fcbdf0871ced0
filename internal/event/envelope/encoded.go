package envelope

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// encodedChanges reads change events of Debezium that a format such as Avro decodes as a whole. The
// row of a change is in a member of the record, after or before.
type encodedChanges struct {
	op            decode.Decoder
	opSlot        value.Slot
	around        decode.Decoder // nil reads no fields of the envelope
	after, before decode.Decoder
	rows          sync.Pool // pool of rows with opSlot
}

func newEncodedChanges(format decode.Format, data, around []decode.Field) (*encodedChanges, error) {
	var names value.Schema
	slot, err := names.Add("op", value.Type{Kind: value.String, Optional: true})
	if err != nil {
		return nil, err
	}
	c := &encodedChanges{opSlot: slot, rows: sync.Pool{New: func() any { return &names.NewRows(1)[0] }}}
	var errs [4]error
	c.op, errs[0] = format.Decoder([]decode.Field{{Name: "op", Slot: slot}})
	c.after, errs[1] = format.Decoder(inside("after", data))
	c.before, errs[2] = format.Decoder(inside("before", data))
	if len(around) > 0 {
		c.around, errs[3] = format.Decoder(around)
	}
	return c, errors.Join(errs[:]...)
}

// inside returns the fields of a row as fields of the record that contains the row in a member.
func inside(member string, fields []decode.Field) []decode.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		f := &fields[i]
		path := f.Path
		if path == nil {
			path = []decode.Part{{Name: f.Name}}
		}
		f.Path = slices.Insert(slices.Clone(path), 0, decode.Part{Name: member})
	}
	return fields
}

// Fields returns the paths of the fields of an envelope in the values of its records.
func (k Kind) Fields(fields []decode.Field) (all []decode.Field) {
	for _, f := range fields {
		switch {
		case f.From == decode.FromEnvelope && k == Debezium:
			all = append(all, f)
		case f.From == decode.FromData && k == Debezium:
			all = append(all, inside("after", []decode.Field{f})...)
		case f.From == decode.FromData:
			all = append(all, f)
		}
	}
	return all
}

// FitsRows checks with fits whether records have the fields of rows, and returns its error. Rows
// are read as JSON, with times and bytes as texts.
func (k Kind) FitsRows(fields []decode.Field, fits func([]decode.Field) error) error {
	fields = k.Fields(fields)
	for i := range fields {
		as := fields[i]
		for _, kind := range texts[as.Slot.Type.Kind] {
			if as.Slot.Type.Kind = kind; fits([]decode.Field{as}) == nil {
				fields[i] = as
				break
			}
		}
	}
	return fits(fields)
}

// texts lists, for each kind of slot, the kinds of values that have the same JSON form.
var texts = map[value.Kind][]value.Kind{value.String: {value.String, value.Time, value.Bytes}, value.Bytes: {value.Bytes, value.String}}

// scan reads a change event. deletion reports that the event is known to be a deletion.
func (c *encodedChanges) scan(record []byte, row *value.Row) (deletion bool, err error) {
	if len(record) == 0 {
		return false, ErrTombstone
	}
	own := c.rows.Get().(*value.Row)
	defer c.rows.Put(own)
	if err := c.op.Scan(record, own); err != nil {
		return false, err
	}
	if !own.Has(c.opSlot) {
		return false, &decode.Error{Field: "op", Reason: "absent: the record is not a change event of Debezium. If the connector unwraps its events, remove envelope"}
	}
	of := c.after
	switch op := own.Text(c.opSlot); op {
	case "c", "u", "r":
	case string(rune(deleted)):
		of, deletion = c.before, true
	default:
		return false, &decode.Error{Field: "op", Reason: fmt.Sprintf("want c, u, d or r, got %.20q: a truncation or a message has no row, set skipped.operations of the connector", op)}
	}
	if c.around != nil {
		if err := c.around.Scan(record, row); err != nil {
			return deletion, err
		}
	}
	return deletion, of.Scan(record, row)
}

// decoders returns all decoders of a record.
func (c *encodedChanges) decoders() []decode.Decoder {
	all := []decode.Decoder{c.op, c.after, c.before}
	if c.around != nil {
		all = append(all, c.around)
	}
	return all
}

// preparers prepares records for several decoders.
type preparers []decode.Preparer

// preparerOf returns a preparer for decoders, or nil if none needs one.
func preparerOf(decoders ...decode.Decoder) decode.Preparer {
	var all preparers
	for _, d := range decoders {
		if p, ok := d.(decode.Preparer); ok {
			all = append(all, p)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// Prepare implements decode.Preparer. A record without a value is not an event and needs no
// preparation.
func (p preparers) Prepare(src []byte, turn uint64, wake func()) (ready bool, why error) {
	ready = true
	for _, one := range p {
		known, fault := one.Prepare(src, turn, wake)
		ready = ready && known
		if why == nil {
			why = fault
		}
	}
	return ready, why
}

// Scan implements decode.Decoder. It runs all decoders.
func (p preparers) Scan(src []byte, row *value.Row) error {
	for _, one := range p {
		if err := one.Scan(src, row); err != nil {
			return err
		}
	}
	return nil
}
