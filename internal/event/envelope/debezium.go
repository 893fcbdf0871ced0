package envelope

import (
	"bytes"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// deleted is the op of a deletion.
const deleted = 'd'

// changes opens change events of Debezium. Their data is the row after the change. For a deletion
// it is the row before the change.
type changes struct {
	around *decode.Scanner // nil reads no fields of the envelope
}

func newChanges(around []decode.Field) *changes {
	if len(around) == 0 {
		return &changes{}
	}
	return &changes{decode.New(around)}
}

func (c *changes) open(r *stream.Record, row *value.Row) (data []byte, at int, err error) {
	change, err := changeOf(r.Value)
	if err != nil {
		return nil, 0, err
	}
	if c.around != nil {
		if err := c.around.Scan(change.envelope, row); err != nil {
			return nil, 0, moved(err, change.at)
		}
	}
	image := change.image()
	return image.text, image.at, nil
}

// change is a change event.
type change struct {
	envelope      []byte // the object with op, before and after
	at            int    // its offset
	op            byte
	before, after part
}

// image returns the row of the change.
func (c *change) image() part {
	if c.op == deleted {
		return c.before
	}
	return c.after
}

// changeOf reads the change event in a value, with or without a schema.
func changeOf(value []byte) (c change, err error) {
	if len(value) == 0 {
		return c, ErrTombstone
	}
	var op, payload part
	c.envelope = value
	if op, payload, err = c.members(); err != nil {
		return c, err
	}
	if op.text == nil && payload.text != nil {
		if !payload.is() {
			return c, ErrTombstone
		}
		c = change{envelope: payload.text, at: payload.at}
		if op, _, err = c.members(); err != nil {
			return c, err
		}
	}
	if !op.is() {
		return c, &decode.Error{Field: "op", Offset: c.at, Reason: "absent: the record is not a change event of Debezium. If the connector unwraps its events, remove envelope"}
	}
	text, _ := decode.String(op.text)
	if len(text) == 1 {
		c.op = text[0]
	}
	return c, c.check(op)
}

// check checks that a change has the row that its op requires.
func (c *change) check(op part) error {
	wrong := &decode.Error{Field: "op", Offset: op.at}
	switch c.op {
	case 'c', 'u', 'r':
		if wrong.Reason = fmt.Sprintf("it is %q, and there is no after", c.op); c.after.is() {
			return nil
		}
	case deleted:
		if wrong.Reason = "it is 'd', and there is no before: set REPLICA IDENTITY so that the database logs at least the key of deleted rows"; c.before.is() {
			return nil
		}
	default:
		wrong.Reason = fmt.Sprintf("want c, u, d or r, got %.20s: a truncation or a message has no row, set skipped.operations of the connector", op.text)
	}
	return wrong
}

// members finds the parts of the envelope.
func (c *change) members() (op, payload part, err error) {
	walk, err := members(c.envelope, c.at, named{"op", &op}, named{"before", &c.before}, named{"after", &c.after}, named{"payload", &payload})
	if err != nil {
		return op, payload, err
	}
	if walk.Array() {
		return op, payload, &decode.Error{Offset: c.at, Reason: "want a JSON object, got an array"}
	}
	return op, payload, moved(walk.Err(), c.at)
}

// column returns the text of a key. A key that is an object, with or without a schema, gives the
// text of its only column. ok is false for any other object.
func column(key []byte) (text []byte, ok bool) {
	if len(key) == 0 || key[0] != '{' && key[0] != '"' {
		return key, true
	}
	if key[0] == '"' { // decode.String accepts only values of a Walker
		walk := decode.Walk(append(append([]byte{'['}, key...), ']'))
		if text, ok = key, true; walk.Next() && !walk.Next() && walk.Err() == nil {
			text, _ = decode.String(walk.Value)
		}
		return text, ok
	}
	var only, payload []byte
	columns, schema := 0, false
	walk := decode.Walk(key)
	for ; walk.Next(); columns++ {
		switch only = walk.Value; string(walk.Name) {
		case "payload":
			payload = walk.Value
		case "schema":
			schema = true
		}
	}
	switch {
	case walk.Err() != nil:
		return nil, false
	case columns == 2 && schema && payload != nil && payload[0] == '{':
		return column(payload)
	case columns == 2 && schema && payload != nil:
		only = payload
	case columns != 1:
		return nil, false
	}
	if text, ok = decode.String(only); ok {
		return text, true
	}
	_, number := decode.Number(only)
	return only, number && !bytes.ContainsAny(only, ".eE")
}

// Column returns the text of a JSON key: a text, an integer, or an object with one of them.
func Column(key []byte) ([]byte, error) {
	text, ok := column(key)
	if !ok {
		return nil, fmt.Errorf("its key %.60q is not a text, an integer or an object with one of them", key)
	}
	return text, nil
}

// Row returns the key and the row of a table in a record. The row is nil if the record deletes it.
// wrong is an error in the value: the row is then unknown. unknown is an error in the key: the
// record then belongs to no row.
func (k Kind) Row(r *stream.Record) (key, row []byte, wrong, unknown error) {
	if k == None {
		return r.Key, r.Value, nil, nil
	}
	key, err := Column(r.Key)
	if err != nil {
		return nil, nil, nil, err
	}
	switch c, err := changeOf(r.Value); {
	case err == ErrTombstone:
		return key, nil, nil, nil
	case err != nil:
		return key, nil, err, nil
	case c.op == deleted:
		return key, nil, nil, nil
	default:
		return key, c.after.text, nil, nil
	}
}
