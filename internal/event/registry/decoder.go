package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Limits of a decoder.
const (
	programsMax = 256 // schemas, and message types of Protobuf schemas
	indexMax    = 16  // numbers in the index of a message type
)

// PrefixBytes is the length of a record's prefix: a byte 0 and the id of its schema. With Protobuf
// the index of the message type follows.
const PrefixBytes = 5

// Decoder reads fields of records with the schemas that the records name. Only one goroutine may
// use it.
type Decoder struct {
	registry *Registry
	fields   []decode.Field
	whole    bool // converts records to JSON, and reads no fields
	programs map[typeOf]*program
}

var _ decode.Preparer = (*Decoder)(nil)

// typeOf identifies the type of a record.
type typeOf struct {
	id    int
	index string // index of the message type in a Protobuf schema; "" is the schema itself
}

// program is the decoder of a type, or an error.
type program struct {
	*answer                // about the schema
	decoder decode.Decoder // nil if err of the program or of the answer is set
	err     error
	turn    uint64 // turn of the last Prepare for this type
}

var errNoPrefix = errors.New("the record does not begin with the id of a schema, a byte 0 and 4 bytes: its producer uses no schema registry")

// idOf returns the id of the schema of a record.
func idOf(src []byte) (int, error) {
	if len(src) < PrefixBytes || src[0] != 0 {
		return 0, errNoPrefix
	}
	id := binary.BigEndian.Uint32(src[1:])
	if id > math.MaxInt32 {
		return 0, fmt.Errorf("schema id %d is not valid: ids are at most %d", id, math.MaxInt32)
	}
	return int(id), nil
}

// indexOf returns the bytes of the index of a message type, with the leading length.
func indexOf(src []byte) (index []byte, err error) {
	end := 0
	next := func() int64 {
		n, size := binary.Varint(src[end:])
		if size <= 0 {
			n, err = -1, errors.New("the index of the message type is not valid")
		}
		end += max(size, 0)
		return n
	}
	count := next()
	if err == nil && (count < 0 || count > indexMax) {
		err = fmt.Errorf("the index of the message type has %d numbers: 0 to %d are valid", count, indexMax)
	}
	for ; count > 0 && err == nil; count-- {
		next()
	}
	return src[:end], err
}

// Prepare implements decode.Preparer.
func (d *Decoder) Prepare(src []byte, turn uint64, wake func()) (ready bool, why error) {
	id, err := idOf(src)
	if err != nil {
		return true, nil // Scan reports the error
	}
	of := typeOf{id: id}
	p := d.programs[of]
	if p != nil && p.turn < turn && !p.until.IsZero() && !d.registry.now().Before(p.until) {
		delete(d.programs, of)
		p = nil
	}
	if p == nil {
		found, fault := d.registry.find(question{id: id}, d, wake)
		if found == nil {
			return false, fault
		}
		if p = d.add(of, found, turn, wake); p == nil {
			return false, nil
		}
	}
	p.turn = turn
	var index []byte
	if base := p.answer; base.protobuf != nil {
		if index, err = indexOf(src[PrefixBytes:]); err != nil {
			return true, nil // Scan reports the error
		}
		if p = d.programs[typeOf{id, string(index)}]; p == nil {
			if p = d.add(typeOf{id, string(index)}, base, turn, wake); p == nil {
				return false, nil
			}
		}
		p.turn = turn
	}
	if p.decoder != nil || p.err != nil || p.answer.err != nil || d.whole {
		return true, nil
	}
	return d.compile(typeOf{id, string(index)}, p, wake)
}

// add adds a type. It returns nil if the decoder is full and this turn needs all its types; the
// next turn then has room.
func (d *Decoder) add(of typeOf, found *answer, turn uint64, wake func()) *program {
	if len(d.programs) >= programsMax && turn != decode.EveryTurn {
		var oldest typeOf
		least := turn
		for of, p := range d.programs {
			if p.turn < least {
				oldest, least = of, p.turn
			}
		}
		if least == turn {
			wake()
			return nil
		}
		delete(d.programs, oldest)
	}
	p := &program{answer: found, turn: turn}
	d.programs[of] = p
	return p
}

// compile makes the decoder of a type.
func (d *Decoder) compile(of typeOf, p *program, wake func()) (ready bool, why error) {
	made, err := decoderOf(of.index, p.answer, d.fields)
	if err != nil {
		before, fault := d.registry.find(question{of.id, true}, d, wake)
		if before == nil {
			return false, fault
		}
		if p.err = fmt.Errorf("schema id %d does not fit: %w", of.id, err); before.before != 0 {
			p.err = fmt.Errorf("schema id %d, the version after schema id %d, does not fit: %w", of.id, before.before, err)
		}
		return true, nil
	}
	p.decoder = made
	return true, nil
}

// decoderOf returns the decoder of a schema, or of the message type at an index.
func decoderOf(index string, of *answer, fields []decode.Field) (decode.Decoder, error) {
	switch {
	case of.json != nil:
		return decode.JSON{}.Decoder(fields)
	case of.avro != nil:
		return of.avro.Decoder(fields)
	}
	schema, err := messageAt(of, index)
	if err != nil {
		return nil, err
	}
	return schema.Decoder(fields)
}

// messageAt returns the message type at an index.
func messageAt(of *answer, index string) (*protobuf.Schema, error) {
	numbers := []int{0} // a count of 0 stands for this
	if count, at := binary.Varint([]byte(index)); count > 0 {
		numbers = nil
		for at < len(index) {
			n, size := binary.Varint([]byte(index[at:]))
			numbers, at = append(numbers, int(n)), at+size
		}
	}
	return of.protobuf.At(numbers...)
}

// Scan implements decode.Decoder.
func (d *Decoder) Scan(src []byte, row *value.Row) error {
	p, begin, err := d.find(src)
	if err != nil {
		return err
	}
	return moved(p.decoder.Scan(src[begin:], row), begin)
}

// find returns the program for a record, and the offset of its data.
func (d *Decoder) find(src []byte) (p *program, begin int, err error) {
	id, err := idOf(src)
	if err != nil {
		return nil, 0, &decode.Error{Reason: err.Error()}
	}
	begin = PrefixBytes
	p = d.programs[typeOf{id: id}]
	if p != nil && p.protobuf != nil {
		index, err := indexOf(src[PrefixBytes:])
		if err != nil {
			return nil, 0, &decode.Error{Offset: PrefixBytes, Reason: err.Error()}
		}
		begin += len(index)
		p = d.programs[typeOf{id, string(index)}]
	}
	switch {
	case p == nil:
		err = &decode.Error{Offset: 1, Reason: fmt.Sprintf("schema id %d was not looked up", id)}
	case p.answer.err != nil:
		err = &decode.Error{Offset: 1, Reason: fmt.Sprintf("schema id %d: %v", id, p.answer.err)}
	case p.err != nil:
		err = &decode.Error{Offset: 1, Reason: p.err.Error()}
	}
	return p, begin, err
}

// moved returns an error of the data with its position in the record.
func moved(err error, begin int) error {
	if wrong, ok := errors.AsType[*decode.Error](err); ok {
		return &decode.Error{Field: wrong.Field, Offset: wrong.Offset + begin, Reason: wrong.Reason}
	}
	return err
}

// Transcoder returns a converter of records to JSON, with the schemas that the records name.
func (r *Registry) Transcoder() decode.Transcoder {
	return r.decoder(nil, true)
}

// AppendJSON implements decode.Transcoder.
func (d *Decoder) AppendJSON(dst, src []byte) ([]byte, error) {
	p, begin, err := d.find(src)
	if err != nil {
		return nil, err
	}
	data := src[begin:]
	switch {
	case p.json != nil:
		return append(dst, data...), nil
	case p.avro != nil:
		dst, err = p.avro.AppendJSON(dst, data)
		return dst, moved(err, begin)
	}
	schema, err := messageAt(p.answer, string(src[PrefixBytes:begin]))
	if err != nil {
		return nil, &decode.Error{Offset: PrefixBytes, Reason: err.Error()}
	}
	dst, err = schema.AppendJSON(dst, data)
	return dst, moved(err, begin)
}
