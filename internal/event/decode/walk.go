package decode

import (
	"bytes"
	"unicode/utf8"
)

// Walker reads a JSON object or array member by member, for readers that do not know the wanted
// members in advance. It accepts what a Scanner accepts. It also accepts arrays, and names that
// occur twice. The zero Walker has no members.
type Walker struct {
	Name  []byte // name of the member that Next found, without escapes; nil in an array
	Value []byte // text of its value, without surrounding white space
	At    int    // offset of Value

	src    []byte
	i      int
	closer byte // '}' or ']'
	more   bool
	err    *Error
}

// Walk enters the object or array in src. Values alias src, and so do names without escapes.
func Walk(src []byte) Walker {
	w := Walker{src: src}
	if !utf8.Valid(src) {
		w.err, _ = invalidUTF8(src).(*Error)
		return w
	}
	i := space(src, 0)
	if i == len(src) || src[i] != '{' && src[i] != '[' {
		w.fail(i, unexpected(src, i, "a JSON object or array"))
		return w
	}
	w.closer = src[i] + 2 // '{'+2 == '}', '['+2 == ']'
	w.i = space(src, i+1)
	w.more = true
	if w.i < len(src) && src[w.i] == w.closer {
		w.end(w.i + 1)
	}
	return w
}

// Array reports whether the members belong to an array.
func (w *Walker) Array() bool { return w.closer == ']' }

// Err returns the error in the text read so far, an *Error, or nil. Once Next has returned false,
// all of the text was read.
func (w *Walker) Err() error {
	if w.err == nil {
		return nil
	}
	return w.err
}

// Next goes to the next member. It returns false at the end, or if the text is invalid.
func (w *Walker) Next() bool {
	if !w.more {
		return false
	}
	i, reason := w.i, ""
	if w.closer == '}' {
		var escaped bool
		if w.Name, escaped, i, reason = key(w.src, i); reason != "" {
			return w.fail(i, reason)
		}
		if escaped {
			w.Name = []byte(unescape(w.Name))
		}
	}
	start := i
	if i, reason = skip(w.src, i, 1); reason != "" {
		return w.fail(i, reason)
	}
	w.Value, w.At = w.src[start:i:i], start
	i = space(w.src, i)
	if i < len(w.src) && w.src[i] == ',' {
		w.i = space(w.src, i+1)
		return true
	}
	if i < len(w.src) && w.src[i] == w.closer {
		return w.end(i + 1)
	}
	return w.fail(i, unexpected(w.src, i, "',' or '"+string(rune(w.closer))+"'"))
}

// end checks that nothing follows the last member.
func (w *Walker) end(i int) bool {
	w.more = false
	if i = space(w.src, i); i < len(w.src) {
		return w.fail(i, unexpected(w.src, i, "the end of the record"))
	}
	return true
}

func (w *Walker) fail(i int, reason string) bool {
	w.more = false
	w.err = &Error{Offset: i, Reason: reason}
	return false
}

// Number returns the float64 nearest to a JSON number. ok is false for any other text, for
// surrounding text, and for numbers beyond float64.
func Number(text []byte) (v float64, ok bool) {
	if len(text) == 0 || !numeric(text[0]) {
		return 0, false
	}
	var n numeral
	if end, reason := number(text, 0, &n); reason != "" || end != len(text) {
		return 0, false
	}
	v, reason := n.float(text)
	return v, reason == ""
}

// String returns the text of a Walker's value. ok is false if the value is no string. The text
// aliases the value unless the value has escapes.
func String(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = []byte(unescape(text))
	}
	return text, true
}
