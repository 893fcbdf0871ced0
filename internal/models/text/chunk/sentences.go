package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentences appends the sentences of a part of a text, without the white space around them. If a
// sentence has more tokens than a chunk, it is appended in parts that fill chunks.
func (p *packing) sentences(units []span, text string, of span) []span {
	var words []span
	for of.from < of.to {
		end := sentenceEnd(text, of.from, of.to)
		sentence := trimmed(text, span{from: of.from, to: end})
		of.from = end
		words = p.words(words[:0], text, sentence)
		units = p.fill(units, words)
	}
	return units
}

// fill appends the words of a sentence as one unit, or as several if they exceed a chunk.
func (p *packing) fill(units, words []span) []span {
	for i := range words {
		last := len(units) - 1
		if i > 0 && units[last].tokens+words[i].tokens <= p.Size {
			units[last].to, units[last].tokens = words[i].to, units[last].tokens+words[i].tokens
			continue
		}
		units = append(units, words[i])
	}
	return units
}

// trimmed returns a part of a text without the white space around it.
func trimmed(text string, of span) span {
	part := text[of.from:of.to]
	of.to -= len(part) - len(strings.TrimRightFunc(part, unicode.IsSpace))
	of.from = min(of.to, of.from+len(part)-len(strings.TrimLeftFunc(part, unicode.IsSpace)))
	return of
}

// sentenceEnd returns the end of the sentence that begins at a position:
//
//   - after `.`, `!`, `?` or an ellipsis, and closing quotes and brackets, if white space
//     follows and the next character is not a lower-case letter,
//   - after the full stops of Chinese and Japanese, and closing characters,
//   - at an empty line.
func sentenceEnd(text string, at, to int) int {
	for at < to {
		r, n := utf8.DecodeRuneInString(text[at:to])
		at += n
		switch {
		case r == '\n':
			if emptyLine(text[at:to]) {
				return at
			}
		case strings.ContainsRune("。！？｡", r):
			return closed(text, at, to)
		case strings.ContainsRune(".!?…", r):
			end := closed(text, at, to)
			rest := text[end:to]
			next := strings.TrimLeftFunc(rest, unicode.IsSpace)
			first, _ := utf8.DecodeRuneInString(next)
			if next == "" || len(next) < len(rest) && !unicode.IsLower(first) {
				return end
			}
			at = end
		}
	}
	return to
}

// closed returns the position after further full stops and closing quotes and brackets.
func closed(text string, at, to int) int {
	return to - len(strings.TrimLeft(text[at:to], `.!?…。！？｡"'”’»)]}」』）】》`))
}

// emptyLine reports whether a text begins with a line of white space.
func emptyLine(text string) bool {
	for i := range len(text) {
		switch text[i] {
		case '\n':
			return true
		case ' ', '\t', '\r':
		default:
			return false
		}
	}
	return false
}
