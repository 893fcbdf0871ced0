package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// read reads the field's value at src[i:] into its slot. The value is nested depth levels deep.
func (f *Field) read(src []byte, i, depth int, row *value.Row) (int, string) {
	if i >= len(src) {
		return len(src), EndOfRecord
	}
	c := src[i]
	kind := f.Slot.Type.Kind
	switch {
	case c == '[' && kind == value.Vector:
		return f.readVector(src, i+1, row)
	case c == '[' && kind.IsList():
		return f.readList(src, i+1, depth+1, row)
	case c == '{' && kind.IsMap():
		return f.readMap(src, i+1, depth+1, row)
	case c == '"' && (kind >= value.Time && kind < value.Vector || kind == value.Content):
		return f.readText(src, i, row)
	case numeric(c) && (kind == value.Int || kind == value.Number):
		var n numeral
		end, reason := number(src, i, &n)
		if reason != "" {
			return end, reason
		}
		if kind == value.Int {
			v, reason := n.int(src[i:end])
			if reason != "" {
				return i, reason
			}
			row.SetInt(f.Slot, v)
			return end, ""
		}
		v, reason := n.float(src[i:end])
		if reason != "" {
			return i, reason
		}
		row.SetNumber(f.Slot, v)
		return end, ""
	case (c == 't' || c == 'f') && kind == value.Bool:
		end, reason := scalar(src, i)
		row.SetBool(f.Slot, c == 't')
		return end, reason
	case c == 'n':
		end, reason := scalar(src, i)
		if reason == "" && !f.Slot.Type.Optional {
			return i, "null but required: want " + f.Slot.Type.String()
		}
		row.Clear(f.Slot)
		return end, reason
	case kind == value.Raw:
		end, reason := skip(src, i, depth)
		row.SetText(f.Slot, oneLine(src[i:end]))
		return end, reason
	case numeric(c) && kind == value.String && f.Verbatim:
		end, reason := scalar(src, i)
		row.SetText(f.Slot, value.Text(src[i:end]))
		return end, reason
	}
	if got := typeOf(c); got != "" {
		return i, "want " + f.Slot.Type.String() + ", got " + got
	}
	return i, unexpected(src, i, "a value")
}

// typeOf returns the type of a value that starts with c, or "".
func typeOf(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a bool"
	}
	if numeric(c) {
		return "a number"
	}
	return ""
}

// readVector reads the numbers of a list, starting after its bracket.
func (f *Field) readVector(src []byte, i int, row *value.Row) (int, string) {
	size := f.Slot.Type.Size
	numbers := make([]byte, 0, 4*size)
	for i = space(src, i); i < len(src) && src[i] != ']'; {
		if !numeric(src[i]) {
			return i, unexpected(src, i, "a number")
		}
		var n numeral
		end, reason := number(src, i, &n)
		if reason != "" {
			return end, reason
		}
		v, reason := n.float32(src[i:end])
		if reason != "" {
			return i, reason
		}
		if numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(v)); len(numbers) > 4*size {
			return i, "more numbers than " + f.Slot.Type.String()
		}
		if i = space(src, end); i < len(src) && src[i] == ',' {
			if i = space(src, i+1); i < len(src) && src[i] == ']' {
				return i, unexpected(src, i, "a number")
			}
		} else if i < len(src) && src[i] != ']' {
			return i, unexpected(src, i, "',' or ']'")
		}
	}
	switch {
	case i >= len(src):
		return i, EndOfRecord
	case len(numbers) < 4*size:
		return i, fmt.Sprintf("%d numbers: want %s", len(numbers)/4, f.Slot.Type)
	}
	row.SetText(f.Slot, value.Text(numbers))
	return i + 1, ""
}

// oneLine replaces line breaks in JSON with spaces, because a record with the JSON may become a
// line of a file. Strings in valid JSON contain no line breaks.
func oneLine(text []byte) string {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return value.Text(text)
	}
	text = bytes.ReplaceAll(text, []byte{'\n'}, []byte{' '})
	return value.Text(bytes.ReplaceAll(text, []byte{'\r'}, []byte{' '}))
}

// readText reads a string, bytes or a time.
func (f *Field) readText(src []byte, i int, row *value.Row) (int, string) {
	end, escaped, reason := text(src, i+1)
	if reason != "" {
		return end, reason
	}
	inside := src[i+1 : end-1]
	v := value.Text(inside)
	if escaped {
		v = unescape(inside)
	}
	switch f.Slot.Type.Kind {
	case value.Bytes:
		decoded, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return i, "not standard base64 with padding"
		}
		row.SetText(f.Slot, value.Text(decoded))
	case value.Time:
		at, ok := Instant(v)
		if !ok {
			return i, "not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z"
		}
		row.SetInt(f.Slot, at)
	default:
		row.SetText(f.Slot, v)
	}
	return end, ""
}

// numeral is a number as written: its value is digits * 10^exponent.
type numeral struct {
	digits   uint64 // the first 19 digits, starting at the first that is not 0
	count    int    // number of digits without leading zeros
	exponent int
	negative bool
	literal  bool // no fraction and no exponent
}

// numeric reports whether c starts a number.
func numeric(c byte) bool { return c-'0' <= 9 || c == '-' }

// number reads a number and fills n.
func number(src []byte, i int, n *numeral) (int, string) {
	n.literal = true
	if src[i] == '-' {
		n.negative = true
		i++
	}
	start := i
	if i = n.run(src, i); i == start {
		return i, unexpected(src, i, "a digit")
	}
	if src[start] == '0' && i > start+1 {
		return start + 1, "a number with a leading zero"
	}
	if i < len(src) && src[i] == '.' {
		n.literal = false
		start = i + 1
		if i = n.run(src, start); i == start {
			return i, unexpected(src, i, "a digit")
		}
		n.exponent = start - i
	}
	if i < len(src) && src[i]|' ' == 'e' {
		n.literal = false
		i++
		negative := i < len(src) && src[i] == '-'
		if negative || i < len(src) && src[i] == '+' {
			i++
		}
		start, e := i, 0
		for ; i < len(src) && src[i]-'0' <= 9; i++ {
			e = min(e*10+int(src[i]-'0'), 1<<30) // beyond every float64, and far from overflow
		}
		if i == start {
			return i, unexpected(src, i, "a digit")
		}
		if negative {
			e = -e
		}
		n.exponent += e
	}
	return i, ""
}

// run adds a run of digits to n.
func (n *numeral) run(src []byte, i int) int {
	for ; i < len(src) && src[i]-'0' <= 9; i++ {
		if n.count < 19 {
			n.digits = n.digits*10 + uint64(src[i]-'0')
		}
		if n.digits != 0 {
			n.count++
		}
	}
	return i
}

// int returns the value as an int64.
func (n *numeral) int(literal []byte) (int64, string) {
	if !n.literal {
		return 0, "want int, got a number with a fraction or an exponent"
	}
	limit := uint64(math.MaxInt64)
	if n.negative {
		limit++
	}
	if n.count > 19 || n.digits > limit {
		return 0, "out of the range of int: " + clip(literal)
	}
	if n.negative {
		return int64(-n.digits), ""
	}
	return int64(n.digits), ""
}

// powers are the powers of ten that float64 holds exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// float returns the float64 nearest to the value. Digits below 2^53 and powers of ten up to 10^22
// are both exact, so one multiplication or division rounds once. All other values are parsed by
// strconv.
func (n *numeral) float(literal []byte) (float64, string) {
	if n.count <= 19 && n.digits < 1<<53 && n.exponent >= -22 && n.exponent <= 22 {
		v := float64(n.digits)
		if n.exponent < 0 {
			v /= powers[-n.exponent]
		} else {
			v *= powers[n.exponent]
		}
		if n.negative {
			v = -v
		}
		return v, ""
	}
	v, err := strconv.ParseFloat(value.Text(literal), 64)
	if err != nil {
		return 0, "out of the range of number: " + clip(literal)
	}
	return v, ""
}

// float32 returns the float32 nearest to the value. The nearest float64 rounds to it, with two
// exceptions. If the float64 lies in the middle of two float32, the value may be on either side.
// Below the normal numbers the middle is elsewhere.
func (n *numeral) float32(literal []byte) (float32, string) {
	if v, reason := n.float(literal); reason == "" {
		const least, most = 0x1p-126, 0x1.fffffep127
		size, middle := math.Abs(v), math.Float64bits(v)&(1<<29-1) == 1<<28
		if size >= least && size <= most && !middle || n.digits == 0 {
			return float32(v), ""
		}
	}
	v, err := strconv.ParseFloat(value.Text(literal), 32)
	if err != nil {
		return 0, "out of the range of a number of 32 bits: " + clip(literal)
	}
	return float32(v), ""
}

// clip shortens a quotation for an error.
func clip(literal []byte) string {
	if len(literal) > 40 {
		return string(literal[:37]) + "..."
	}
	return string(literal)
}

// Instant reads a time of RFC 3339 as microseconds since 1970 UTC. It truncates digits after the
// microsecond. It does not use time.Parse, which allocates a zone.
func Instant(s string) (int64, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	year, month, day := decimal(s[0:4]), decimal(s[5:7]), decimal(s[8:10])
	hour, minute, second := decimal(s[11:13]), decimal(s[14:16]), decimal(s[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	date := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if date.Day() != day {
		return 0, false // such as 30 February
	}
	zone := s[19:]
	micros := int64(0)
	if zone[0] == '.' {
		n := 1
		for scale := int64(100_000); n < len(zone) && zone[n]-'0' <= 9; n++ {
			micros += int64(zone[n]-'0') * scale
			scale /= 10
		}
		if n == 1 {
			return 0, false
		}
		zone = zone[n:]
	}
	offset, ok := zoneOffset(zone)
	return (date.Unix()-offset)*1_000_000 + micros, ok
}

// zoneOffset returns the seconds east of UTC for Z, +01:00 and similar zones.
func zoneOffset(zone string) (int64, bool) {
	if zone == "Z" {
		return 0, true
	}
	if len(zone) != 6 || zone[0] != '+' && zone[0] != '-' || zone[3] != ':' {
		return 0, false
	}
	hours, minutes := decimal(zone[1:3]), decimal(zone[4:6])
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	offset := int64(hours*3600 + minutes*60)
	if zone[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// decimal returns the value of digits, or -1.
func decimal(digits string) int {
	v := 0
	for i := range len(digits) {
		if digits[i]-'0' > 9 {
			return -1
		}
		v = v*10 + int(digits[i]-'0')
	}
	return v
}
