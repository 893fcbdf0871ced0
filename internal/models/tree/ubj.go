package tree

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// ubjDocument reads the part of UBJSON (draft 12) that XGBoost writes: plain objects, and arrays
// that are plain, counted, or counted and typed. Numbers are big-endian.
type ubjDocument struct {
	data  []byte
	at    int
	depth int
	typed byte // element type of the typed array that is being read, or 0
}

// ubjWidth returns the number of bytes of a numeric type, or 0 for other types.
func ubjWidth(kind byte) int {
	switch kind {
	case 'i', 'U':
		return 1
	case 'I':
		return 2
	case 'l', 'd':
		return 4
	case 'L', 'D':
		return 8
	}
	return 0
}

func (d *ubjDocument) offset() int { return d.at }

func (d *ubjDocument) fault(format string, arguments ...any) error {
	return &formatError{offset: d.at, text: fmt.Sprintf(format, arguments...)}
}

// take consumes n bytes.
func (d *ubjDocument) take(n int64, what string) ([]byte, error) {
	if n < 0 || n > int64(len(d.data)-d.at) {
		return nil, d.fault("%s of %d bytes where %d are left", what, n, len(d.data)-d.at)
	}
	d.at += int(n)
	return d.data[d.at-int(n) : d.at], nil
}

// kind consumes the type of the next value.
func (d *ubjDocument) kind() (byte, error) {
	if d.typed != 0 {
		return d.typed, nil
	}
	kind, err := d.take(1, "a value")
	if err != nil {
		return 0, err
	}
	return kind[0], nil
}

// whole consumes an integer of a type.
func (d *ubjDocument) whole(kind byte) (int64, error) {
	switch kind {
	case 'T':
		return 1, nil
	case 'F':
		return 0, nil
	case 'i', 'U', 'I', 'l', 'L':
	default:
		return 0, d.fault("type %q, but an integer is expected", kind)
	}
	bits, err := d.take(int64(ubjWidth(kind)), "an integer")
	if err != nil {
		return 0, err
	}
	switch kind {
	case 'i':
		return int64(int8(bits[0])), nil
	case 'U':
		return int64(bits[0]), nil
	case 'I':
		return int64(int16(binary.BigEndian.Uint16(bits))), nil
	case 'l':
		return int64(int32(binary.BigEndian.Uint32(bits))), nil
	}
	return int64(binary.BigEndian.Uint64(bits)), nil
}

func (d *ubjDocument) integer() (int64, error) {
	kind, err := d.kind()
	if err != nil {
		return 0, err
	}
	return d.whole(kind)
}

func (d *ubjDocument) number() (float32, error) {
	kind, err := d.kind()
	if err != nil {
		return 0, err
	}
	if kind != 'd' && kind != 'D' {
		value, err := d.whole(kind)
		return float32(value), err
	}
	bits, err := d.take(int64(ubjWidth(kind)), "a number")
	if err != nil {
		return 0, err
	}
	if kind == 'D' {
		return float32(math.Float64frombits(binary.BigEndian.Uint64(bits))), nil
	}
	return math.Float32frombits(binary.BigEndian.Uint32(bits)), nil
}

// counted consumes a length and that many bytes.
func (d *ubjDocument) counted(what string) ([]byte, error) {
	kind, err := d.take(1, what)
	if err != nil {
		return nil, err
	}
	length, err := d.whole(kind[0])
	if err != nil {
		return nil, err
	}
	return d.take(length, what)
}

func (d *ubjDocument) text() (string, error) {
	kind, err := d.kind()
	if err != nil {
		return "", err
	}
	if kind != 'S' {
		return "", d.fault("type %q, but a string is expected", kind)
	}
	text, err := d.counted("a string")
	if err == nil && !utf8.Valid(text) {
		err = d.fault("a string that is not UTF-8")
	}
	return string(text), err
}

// open consumes the type of an object or array.
func (d *ubjDocument) open(want byte, what string) error {
	kind, err := d.kind()
	if err != nil {
		return err
	}
	if kind != want {
		return d.fault("type %q where %s should be", kind, what)
	}
	if d.depth++; d.depth > depthMax {
		return d.fault("nested deeper than %d", depthMax)
	}
	return nil
}

// consume consumes the byte c if it is next.
func (d *ubjDocument) consume(c byte) bool {
	if d.at < len(d.data) && d.data[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *ubjDocument) object(visit func([]byte) error) error {
	if err := d.open('{', "an object"); err != nil {
		return err
	}
	for !d.consume('}') {
		key, err := d.counted("a field's name")
		if err != nil {
			return err
		}
		if err := visit(key); err != nil {
			return err
		}
	}
	d.depth--
	return nil
}

// header consumes type and count of an array; without a count, count is -1.
func (d *ubjDocument) header() (kind byte, count int64, err error) {
	if d.consume('$') {
		marker, err := d.take(1, "the type of an array")
		if err != nil {
			return 0, 0, err
		}
		if kind = marker[0]; ubjWidth(kind) == 0 {
			return 0, 0, d.fault("an array of type %q", kind)
		}
	}
	if !d.consume('#') {
		if kind != 0 {
			return 0, 0, d.fault("a typed array without a count")
		}
		return 0, -1, nil
	}
	if count, err = d.integer(); err != nil {
		return 0, 0, err
	}
	if left := int64(len(d.data) - d.at); count < 0 || count > left/int64(max(1, ubjWidth(kind))) {
		return 0, 0, d.fault("an array of %d values where %d bytes are left", count, left)
	}
	return kind, count, nil
}

func (d *ubjDocument) array(visit func(int) error) error {
	if err := d.open('[', "an array"); err != nil {
		return err
	}
	kind, count, err := d.header()
	if err != nil {
		return err
	}
	d.typed = kind
	for i := int64(0); i != count && (count >= 0 || !d.consume(']')); i++ {
		if err := visit(int(i)); err != nil {
			return err
		}
	}
	d.typed = 0
	d.depth--
	return nil
}

func (d *ubjDocument) skip() error {
	kind := d.typed
	if kind == 0 && d.at < len(d.data) {
		kind = d.data[d.at]
	}
	switch kind {
	case '{':
		return d.object(func([]byte) error { return d.skip() })
	case '[':
		return d.array(func(int) error { return d.skip() })
	case 'S':
		_, err := d.text()
		return err
	case 'Z':
		d.at++
		return nil
	}
	_, err := d.number()
	return err
}

func (d *ubjDocument) end() error {
	if d.at < len(d.data) {
		return d.fault("bytes behind the end of the model")
	}
	return nil
}
