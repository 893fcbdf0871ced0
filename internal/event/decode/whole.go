package decode

import (
	"errors"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Text is the format of records that are one text each. Their only field is a string.
type Text struct{}

// Decoder implements Format.
func (Text) Decoder(fields []Field) (Decoder, error) {
	if len(fields) != 1 || fields[0].Path != nil || fields[0].Slot.Type.Kind != value.String {
		return nil, errors.New("the format text has one field, of type string and without a path. Others are from the key")
	}
	return whole{fields[0]}, nil
}

// Raw is the format of records that are one value each. Their only field is bytes, or raw for any
// JSON.
type Raw struct{}

// Decoder implements Format.
func (Raw) Decoder(fields []Field) (Decoder, error) {
	if len(fields) != 1 || fields[0].Path != nil || fields[0].Slot.Type.Kind != value.Bytes && fields[0].Slot.Type.Kind != value.Raw {
		return nil, errors.New("the format raw has one field, of type bytes or raw and without a path. Others are from the key")
	}
	return whole{fields[0]}, nil
}

// whole decodes a record as the value of a field.
type whole struct{ field Field }

// Scan implements Decoder. The slot aliases src.
func (w whole) Scan(src []byte, row *value.Row) error {
	reason, at := "", 0
	switch w.field.Slot.Type.Kind {
	case value.Bytes:
		row.SetText(w.field.Slot, value.Text(src))
	case value.String:
		reason = w.field.SetText(src, row)
	default:
		if !utf8.Valid(src) {
			return invalidUTF8(src)
		}
		if at, reason = w.field.read(src, space(src, 0), 1, row); reason != "" {
			break
		}
		if at = space(src, at); at < len(src) {
			reason = unexpected(src, at, "the end of the record")
		}
	}
	if reason != "" {
		return &Error{Field: w.field.Name, Offset: at, Reason: reason}
	}
	return nil
}
