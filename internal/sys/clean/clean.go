// Package clean makes text of others safe to print: control characters, which could
// drive a terminal or forge lines, become escapes.
package clean

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Append appends text to dst as one line. Line ends become spaces, and other control
// characters, but for tabs, and those that turn the direction of writing become
// \u00XX: JSON means the same with both. Bytes that are no UTF-8 become U+FFFD.
func Append(dst, text []byte) []byte { return appendClean(dst, text, false) }

// Text is Append for a string. Tabs become spaces too, so that it fits in a table.
func Text(text string) string {
	return strings.ReplaceAll(string(appendClean(nil, []byte(text), false)), "\t", " ")
}

// Lines is Text for several lines.
func Lines(text string) string { return string(appendClean(nil, []byte(text), true)) }

func appendClean(dst, text []byte, lines bool) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] >= ' ' && text[n] < 0x7f {
			n++
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\t', r == '\n' && lines:
			dst = append(dst, text[0])
		case r == '\n', r == '\r':
			dst = append(dst, ' ')
		case unicode.IsControl(r), turns(r):
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default: // utf8.RuneError too
			dst = utf8.AppendRune(dst, r)
		}
		text = text[size:]
	}
	return dst
}

// turns reports whether a character changes the text direction, or ends a line.
func turns(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u2028' || r == '\u2029' || r == '\u200e' || r == '\u200f'
}

// Writer cleans its text like Lines.
type Writer struct {
	out  io.Writer
	rest []byte // the beginning of a character
	text []byte
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	all := p
	if len(w.rest) > 0 {
		all = append(w.rest, p...)
		w.rest = nil
	}
	if n := unfinished(all); n > 0 {
		w.rest = append([]byte(nil), all[len(all)-n:]...)
		all = all[:len(all)-n]
	}
	w.text = appendClean(w.text[:0], all, true)
	if _, err := w.out.Write(w.text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished returns how many bytes at the end begin a character that goes on.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n]; utf8.RuneStart(last) {
			if last >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
