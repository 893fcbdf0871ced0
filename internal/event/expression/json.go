package expression

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

// timeLayout is RFC 3339 with microseconds. It has a constant width up to the year 9999.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// AppendValue appends a slot's value as JSON. An absent value becomes null. Numbers and strings
// have the form of encoding/json without HTML escaping. A time becomes a string of RFC 3339 in UTC
// with microseconds, bytes become standard base64, a vector or list becomes a list, and a map
// becomes an object. raw is appended unchanged.
func AppendValue(dst []byte, row *value.Row, slot *value.Slot) []byte {
	if !row.Has(*slot) {
		return append(dst, "null"...)
	}
	return AppendElement(dst, slot.Type.Kind, row.Element(slot))
}

// AppendName appends the name of a member of an object, which may be any text, and a colon.
func AppendName(dst []byte, name string) []byte { return append(appendString(dst, name), ':') }

// AppendElement appends a value of a kind as AppendValue does.
func AppendElement(dst []byte, kind value.Kind, e value.Element) []byte {
	switch kind {
	case value.Bool:
		return strconv.AppendBool(dst, e.Num != 0)
	case value.Number:
		return appendNumber(dst, math.Float64frombits(e.Num))
	case value.Int:
		return appendInt(dst, int64(e.Num))
	case value.Time:
		return appendTime(dst, int64(e.Num))
	case value.Bytes:
		return appendBytes(dst, e.Str)
	case value.Vector:
		return appendVector(dst, e.Str)
	case value.Raw:
		return append(dst, e.Str...)
	}
	switch {
	case kind.IsList():
		return appendList(dst, kind.Element(), e.Str)
	case kind.IsMap():
		return appendMap(dst, kind.Element(), e.Str)
	}
	return appendString(dst, e.Str)
}

// AppendRow appends the present values of a row as a JSON object, in the order of the schema. It
// leaves out hidden slots: their names begin with a zero byte.
func AppendRow(dst []byte, row *value.Row, schema *value.Schema) []byte {
	dst = append(dst, '{')
	first := true
	for _, slot := range schema.Slots {
		if !row.Has(slot) || slot.Name[0] == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(strconv.AppendQuote(dst, slot.Name), ':')
		dst = AppendValue(dst, row, &slot)
	}
	return append(dst, '}')
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// appendVector appends a list of numbers that read back as the float32 values in v.
func appendVector(dst []byte, v string) []byte {
	dst = append(dst, '[')
	for i := 0; i+4 <= len(v); i += 4 {
		if i > 0 {
			dst = append(dst, ',')
		}
		number := math.Float32frombits(uint32(v[i]) | uint32(v[i+1])<<8 | uint32(v[i+2])<<16 | uint32(v[i+3])<<24)
		dst = appendFloat(dst, float64(number), 32)
	}
	return append(dst, ']')
}

// appendList appends a list of elements of a kind.
func appendList(dst []byte, of value.Kind, text string) []byte {
	dst = append(dst, '[')
	first := len(dst)
	for e := range value.Elements(text, of) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = AppendElement(dst, of, e)
	}
	return append(dst, ']')
}

// appendMap appends a map as an object.
func appendMap(dst []byte, of value.Kind, text string) []byte {
	dst = append(dst, '{')
	first := len(dst)
	for e := range value.Entries(text, of) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = AppendName(dst, e.Key)
		dst = AppendElement(dst, of, e.Element)
	}
	return append(dst, '}')
}

// appendNumber appends the shortest digits that read back as v. It uses an exponent below 1e-6 and
// from 1e21 on.
func appendNumber(dst []byte, v float64) []byte { return appendFloat(dst, v, 64) }

func appendFloat(dst []byte, v float64, bits int) []byte {
	format, small := byte('f'), 1e-6
	if bits == 32 {
		small = float64(float32(small))
	}
	if a := math.Abs(v); a != 0 && (a < small || a >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, v, format, -1, bits)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 to e-9
		dst = dst[:n-1]
	}
	return dst
}

func appendTime(dst []byte, micros int64) []byte {
	dst = append(dst, '"')
	dst = time.UnixMicro(micros).UTC().AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

func appendBytes(dst []byte, v string) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(v))
	return append(dst, '"')
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		escape := ""
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				escape = `\ufffd`
			case r == '\u2028':
				escape = `\u2028`
			case r == '\u2029':
				escape = `\u2029`
			default:
				i += size
				continue
			}
		case c == '"':
			escape = `\"`
		case c == '\\':
			escape = `\\`
		case c == '\n':
			escape = `\n`
		case c == '\r':
			escape = `\r`
		case c == '\t':
			escape = `\t`
		case c == '\b':
			escape = `\b`
		case c == '\f':
			escape = `\f`
		default:
			escape = fmt.Sprintf(`\u%04x`, c)
		}
		dst = append(dst, s[start:i]...)
		dst = append(dst, escape...)
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
