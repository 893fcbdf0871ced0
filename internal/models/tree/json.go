package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// jsonDocument reads JSON as XGBoost writes it: JSON plus the words NaN, Infinity and -Infinity.
type jsonDocument struct {
	data  []byte
	at    int
	depth int
}

func (d *jsonDocument) offset() int { return d.at }

func (d *jsonDocument) fault(format string, arguments ...any) error {
	return &formatError{offset: d.at, text: fmt.Sprintf(format, arguments...)}
}

// peek returns the next byte that is not space, or 0 at the end.
func (d *jsonDocument) peek() byte {
	for d.at < len(d.data) {
		switch c := d.data[d.at]; c {
		case ' ', '\t', '\r', '\n':
			d.at++
		default:
			return c
		}
	}
	return 0
}

// expect consumes the byte that must come next.
func (d *jsonDocument) expect(want byte, what string) error {
	if c := d.peek(); c != want {
		return d.unexpected(what)
	}
	d.at++
	return nil
}

func (d *jsonDocument) unexpected(want string) error {
	if d.peek(); d.at >= len(d.data) {
		return d.fault("the file ends where %s should be", want)
	}
	return d.fault("%q where %s should be", d.data[d.at], want)
}

// members visits the comma-separated members between two brackets.
func (d *jsonDocument) members(first, last byte, what string, member func(index int) error) error {
	if err := d.expect(first, what); err != nil {
		return err
	}
	if d.depth++; d.depth > depthMax {
		return d.fault("nested deeper than %d", depthMax)
	}
	defer func() { d.depth-- }()
	if d.peek() == last {
		d.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := member(i); err != nil {
			return err
		}
		switch d.peek() {
		case last:
			d.at++
			return nil
		case ',':
			d.at++
		default:
			return d.unexpected(fmt.Sprintf("',' or '%c'", last))
		}
	}
}

func (d *jsonDocument) array(visit func(int) error) error {
	return d.members('[', ']', "an array", visit)
}

func (d *jsonDocument) object(visit func([]byte) error) error {
	return d.members('{', '}', "an object", func(int) error {
		key, err := d.quoted("a field's name")
		if err != nil {
			return err
		}
		if err := d.expect(':', "':'"); err != nil {
			return err
		}
		return visit(key)
	})
}

// quoted returns the value of a string literal. Without escapes it aliases the document.
func (d *jsonDocument) quoted(what string) ([]byte, error) {
	if err := d.expect('"', what); err != nil {
		return nil, err
	}
	start, escaped := d.at, false
	for ; d.at < len(d.data); d.at++ {
		switch d.data[d.at] {
		case '\\':
			escaped = true
			d.at++
		case '"':
			d.at++
			if !escaped {
				return d.data[start : d.at-1], nil
			}
			var text string
			if json.Unmarshal(d.data[start-1:d.at], &text) != nil {
				return nil, d.fault("a string with a malformed escape")
			}
			return []byte(text), nil
		}
	}
	d.at = len(d.data)
	return nil, d.fault("the file ends inside %s", what)
}

func (d *jsonDocument) text() (string, error) {
	text, err := d.quoted("a string")
	if err == nil && !utf8.Valid(text) {
		err = d.fault("a string that is not UTF-8")
	}
	return string(text), err
}

// word returns the characters of a number or of a bare word, and consumes them.
func (d *jsonDocument) word(what string) ([]byte, error) {
	d.peek()
	start := d.at
	for ; d.at < len(d.data); d.at++ {
		c := d.data[d.at]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '+' && c != '.' {
			break
		}
	}
	if d.at == start {
		return nil, d.unexpected(what)
	}
	return d.data[start:d.at], nil
}

func (d *jsonDocument) number() (float32, error) {
	value, err := d.numberOf(32)
	return float32(value), err
}

// number64 is number in float64.
func (d *jsonDocument) number64() (float64, error) { return d.numberOf(64) }

// numberOf reads a number of 32 or 64 bits.
func (d *jsonDocument) numberOf(bits int) (float64, error) {
	word, err := d.word("a number")
	if err != nil {
		return 0, err
	}
	switch string(word) {
	case "NaN", "Infinity", "-Infinity":
	default: // ParseFloat accepts more spellings than JSON does
		if len(bytes.Trim(word, "0123456789+-.eE")) > 0 {
			return 0, d.fault("%q is not a number", clip(word))
		}
	}
	value, err := strconv.ParseFloat(string(word), bits)
	if err != nil {
		return 0, d.fault("%q is not a number of %d bits", clip(word), bits)
	}
	return value, nil
}

func (d *jsonDocument) integer() (int64, error) {
	word, err := d.word("an integer")
	if err != nil {
		return 0, err
	}
	switch string(word) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	value, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil {
		return 0, d.fault("%q is not an integer", clip(word))
	}
	return value, nil
}

func (d *jsonDocument) skip() error {
	var err error
	switch d.peek() {
	case '{':
		err = d.object(func([]byte) error { return d.skip() })
	case '[':
		err = d.array(func(int) error { return d.skip() })
	case '"':
		_, err = d.quoted("a string")
	default:
		_, err = d.word("a value")
	}
	return err
}

func (d *jsonDocument) end() error {
	if d.peek(); d.at < len(d.data) {
		return d.fault("bytes behind the end of the model")
	}
	return nil
}
