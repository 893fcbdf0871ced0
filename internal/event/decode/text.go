package decode

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Texts reports whether SetText reads values of a kind.
func Texts(kind value.Kind) bool {
	switch kind {
	case value.Bool, value.Int, value.Number, value.Time, value.String, value.Bytes:
		return true
	}
	return false
}

// SetText reads a text that is not JSON, such as a header or a column of CSV, into the slot of the
// field. It returns the reason if the text is invalid. A string is the text itself. Values of other
// kinds have their JSON form, without quotes. The slot aliases the text.
func (f *Field) SetText(text []byte, row *value.Row) (reason string) {
	var n numeral
	switch kind := f.Slot.Type.Kind; kind {
	case value.Int, value.Number:
		if len(text) == 0 || !numeric(text[0]) {
			return f.unlike(text)
		}
		end, reason := number(text, 0, &n)
		if reason != "" || end < len(text) {
			return f.unlike(text)
		}
		if kind == value.Int {
			v, reason := n.int(text)
			row.SetInt(f.Slot, v)
			return reason
		}
		v, reason := n.float(text)
		row.SetNumber(f.Slot, v)
		return reason
	case value.Bool:
		v := string(text) == "true"
		if !v && string(text) != "false" {
			return f.unlike(text)
		}
		row.SetBool(f.Slot, v)
	case value.Time:
		at, ok := Instant(value.Text(text))
		if !ok {
			return "not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z"
		}
		row.SetInt(f.Slot, at)
	case value.Bytes:
		decoded, err := base64.StdEncoding.DecodeString(value.Text(text))
		if err != nil {
			return "not standard base64 with padding"
		}
		row.SetText(f.Slot, value.Text(decoded))
	case value.String:
		if !utf8.Valid(text) {
			return "invalid UTF-8"
		}
		row.SetText(f.Slot, value.Text(text))
	default:
		return "a text is no " + f.Slot.Type.String()
	}
	return ""
}

// unlike returns the reason for a text that does not have the type of the field.
func (f *Field) unlike(text []byte) string {
	return "want " + f.Slot.Type.String() + ", got " + strconv.Quote(clip(text))
}

// Absent clears the slot of an optional field. For any other field it returns a reason.
func (f *Field) Absent(row *value.Row) (reason string) {
	if !f.Slot.Type.Optional {
		return f.missing()
	}
	row.Clear(f.Slot)
	return ""
}

func (f *Field) missing() string { return "absent but required: want " + f.Slot.Type.String() }
