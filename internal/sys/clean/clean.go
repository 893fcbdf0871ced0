// Package clean makes untrusted text safe to print. It escapes control characters, which could
// drive a terminal or forge lines.
package clean

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Append appends text to dst as one line. Line ends become spaces. Other control characters, except
// tabs, and characters that change the text direction become \u00XX; in JSON both forms mean the
// same. Invalid UTF-8 becomes U+FFFD.
func Append(dst, text []byte) []byte { return appendClean(dst, text, false) }

// Text is Append for a string. It also replaces tabs by spaces, so that the text fits into a table.
func Text(text string) string {
	return strings.ReplaceAll(string(appendClean(nil, []byte(text), false)), "\t", " ")
}

// Lines cleans a text of several lines. It keeps line ends and tabs.
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
	rest []byte // incomplete character at the end
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

// unfinished returns the number of bytes at the end that are the beginning of an incomplete
// character.
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
