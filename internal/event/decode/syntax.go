package decode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions below take the position where something starts. They return the position after it,
// or the position of an error and a reason that is not empty.

// EndOfRecord is the reason for a record with fewer bytes than it needs, in any format.
const EndOfRecord = "the record ends too early"

// ListMax limits, in bytes, the text of a list or map read from a binary format. It has room for
// the bytes of a record as numbers.
const ListMax = 8 << 20

// space returns the first position from i on that is not white space.
func space(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\r' || src[i] == '\t') {
		i++
	}
	return i
}

// unexpected returns a reason that names the text at src[i] and the expected text.
func unexpected(src []byte, i int, want string) string {
	if i >= len(src) {
		return EndOfRecord
	}
	r, _ := utf8.DecodeRune(src[i:])
	return fmt.Sprintf("unexpected %q, want %s", r, want)
}

// open enters the record's object. more reports whether it has a first member.
func open(src []byte) (i int, more bool, reason string) {
	i = space(src, 0)
	if i == len(src) || src[i] != '{' {
		if strings.HasPrefix(string(src[i:]), "\ufeff") {
			return i, false, "a byte order mark before the object"
		}
		return i, false, unexpected(src, i, "a JSON object")
	}
	i = space(src, i+1)
	if i < len(src) && src[i] == '}' {
		return i + 1, false, ""
	}
	return i, true, ""
}

// after reads the separator after a member of an object. more is true for a comma before a next
// member, and false for the end of the object.
func after(src []byte, i int) (_ int, more bool, reason string) {
	i = space(src, i)
	if i < len(src) {
		switch src[i] {
		case ',':
			return space(src, i+1), true, ""
		case '}':
			return i + 1, false, ""
		}
	}
	return i, false, unexpected(src, i, "',' or '}'")
}

// key reads a key and its colon, up to the value. The name is the text in src; escaped reports
// whether it has escapes.
func key(src []byte, i int) (name []byte, escaped bool, _ int, reason string) {
	if i >= len(src) || src[i] != '"' {
		return nil, false, i, unexpected(src, i, "a key in double quotes")
	}
	end, escaped, reason := text(src, i+1)
	if reason != "" {
		return nil, false, end, reason
	}
	name = src[i+1 : end-1]
	i = space(src, end)
	if i >= len(src) || src[i] != ':' {
		return nil, false, i, unexpected(src, i, "':'")
	}
	return name, escaped, space(src, i+1), ""
}

// text reads the inside of a string and its closing quote.
func text(src []byte, i int) (_ int, escaped bool, reason string) {
	for {
		i = plain(src, i)
		if i >= len(src) {
			return len(src), escaped, EndOfRecord
		}
		switch src[i] {
		case '"':
			return i + 1, escaped, ""
		case '\\':
			escaped = true
			if i, reason = escape(src, i+1); reason != "" {
				return i, escaped, reason
			}
		default:
			return i, escaped, fmt.Sprintf("control character 0x%02x in a string, want \\u%04x", src[i], src[i])
		}
	}
}

// plain returns the first position from i on of a quote, a backslash or a control character. It
// checks eight bytes at a time. Each test marks the lowest matching byte exactly; its borrow can
// falsely mark only higher bytes.
func plain(src []byte, i int) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(src); i += 8 {
		x := binary.LittleEndian.Uint64(src[i:])
		quote, backslash := x^low*'"', x^low*'\\'
		if hit := ((quote-low)&^quote | (backslash-low)&^backslash | (x-low*' ')&^x) & high; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(src) && src[i] != '"' && src[i] != '\\' && src[i] >= ' ' {
		i++
	}
	return i
}

// escape reads an escape, starting after its backslash.
func escape(src []byte, i int) (int, string) {
	if i >= len(src) {
		return len(src), EndOfRecord
	}
	switch src[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, ""
	case 'u':
		for end := i + 5; ; {
			if i++; i == end {
				return i, ""
			}
			if i >= len(src) || hex(src[i]) < 0 {
				return i, unexpected(src, i, "a hexadecimal digit")
			}
		}
	}
	return i, unexpected(src, i, `one of "\/bfnrtu after a backslash`)
}

// hex returns the value of a hexadecimal digit, or -1.
func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|' ' >= 'a' && c|' ' <= 'f':
		return rune(c|' '-'a') + 10
	}
	return -1
}

// unescape returns the string for valid text with escapes. A surrogate without its other half
// becomes U+FFFD, as in encoding/json.
func unescape(text []byte) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		end := plain(text, i)
		b.Write(text[i:end])
		if i = end; i == len(text) {
			break
		}
		i++
		switch c := text[i]; c {
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r := unit(text[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				whole := rune(utf8.RuneError)
				if i+6 < len(text) && text[i+1] == '\\' && text[i+2] == 'u' {
					whole = utf16.DecodeRune(r, unit(text[i+3:]))
				}
				if r = whole; r != utf8.RuneError {
					i += 6
				}
			}
			b.WriteRune(r)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unit returns the UTF-16 unit for four hexadecimal digits.
func unit(digits []byte) rune {
	return hex(digits[0])<<12 | hex(digits[1])<<8 | hex(digits[2])<<4 | hex(digits[3])
}

// skip skips a value of any type at the given depth. One bit of a word stands for each level: 1 for
// an object, 0 for an array.
func skip(src []byte, i, depth int) (int, string) {
	var objects uint64
	var reason string
	bottom := depth
	for {
		if i >= len(src) {
			return len(src), EndOfRecord
		}
		switch c := src[i]; c {
		case '{', '[':
			if depth == MaxDepth {
				return i, fmt.Sprintf("nested deeper than %d", MaxDepth)
			}
			depth++
			objects <<= 1
			i = space(src, i+1)
			if c == '{' {
				objects |= 1
			}
			if i < len(src) && src[i] == c+2 { // '{'+2 == '}', '['+2 == ']'
				break
			}
			if c == '{' {
				if _, _, i, reason = key(src, i); reason != "" {
					return i, reason
				}
			}
			continue
		default:
			if i, reason = scalar(src, i); reason != "" {
				return i, reason
			}
		}
		for closed := true; closed; {
			if depth == bottom {
				return i, ""
			}
			i = space(src, i)
			object := byte(objects & 1)
			switch {
			case i < len(src) && src[i] == ',':
				i = space(src, i+1)
				if object != 0 {
					if _, _, i, reason = key(src, i); reason != "" {
						return i, reason
					}
				}
				closed = false
			case i < len(src) && src[i] == ']'+object*('}'-']'):
				i++
				depth--
				objects >>= 1
			default:
				return i, unexpected(src, i, "',' or '"+string(']'+object*('}'-']'))+"'")
			}
		}
	}
}

// scalar skips a string, a number, true, false or null.
func scalar(src []byte, i int) (int, string) {
	var reason string
	switch c := src[i]; {
	case c == '"':
		i, _, reason = text(src, i+1)
		return i, reason
	case numeric(c):
		var n numeral
		return number(src, i, &n)
	case c == 't':
		return word(src, i, "true")
	case c == 'f':
		return word(src, i, "false")
	case c == 'n':
		return word(src, i, "null")
	}
	return i, unexpected(src, i, "a value")
}

// word skips true, false or null.
func word(src []byte, i int, want string) (int, string) {
	for n := range len(want) {
		if i+n >= len(src) || src[i+n] != want[n] {
			return min(i+n, len(src)), unexpected(src, i+n, want)
		}
	}
	return i + len(want), ""
}
