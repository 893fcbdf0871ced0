package chunk

import (
	"unicode"
	"unicode/utf8"
)

// wordRunesMax is the most characters of a word: a longer one is split.
const wordRunesMax = 100

// words appends the words of a part of a text, as BERT's tokenizer splits them: an ideograph, a
// punctuation character, or a run of other characters that are not white space.
func (p *packing) words(units []span, text string, of span) []span {
	for at := of.from; at < of.to; {
		r, n := utf8.DecodeRuneInString(text[at:of.to])
		if unicode.IsSpace(r) {
			at += n
			continue
		}
		end := at + n
		if inWord(r) {
			end = wordEnd(text, end, of.to)
		}
		units = p.fit(units, text, span{from: at, to: end})
		at = end
	}
	return units
}

// wordEnd returns the end of a word. Its first character is before at.
func wordEnd(text string, at, to int) int {
	for runes := 1; at < to && runes < wordRunesMax; runes++ {
		r, n := utf8.DecodeRuneInString(text[at:to])
		if !inWord(r) {
			break
		}
		at += n
	}
	return at
}

// fit appends a word, or its halves if it has more tokens than a chunk.
func (p *packing) fit(units []span, text string, word span) []span {
	word.tokens = p.count(text[word.from:word.to])
	if word.tokens <= p.Size {
		return append(units, word)
	}
	half := word.from + (word.to-word.from)/2
	for !utf8.RuneStart(text[half]) {
		half--
	}
	if half == word.from {
		word.tokens = p.Size // one character: no vocabulary splits it into so many pieces
		return append(units, word)
	}
	return p.fit(p.fit(units, text, span{from: word.from, to: half}), text, span{from: half, to: word.to})
}

// count returns how many tokens a word has.
func (p *packing) count(word string) int {
	if p.Tokenizer == nil {
		return 1
	}
	p.ids = p.Tokenizer.Append(p.ids[:0], word, 0)
	return len(p.ids) - p.Tokenizer.Around()
}

// inWord reports whether a character is part of a longer word.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r < ' ' && !unicode.IsSpace(r) || r == 0x7f
	}
	return !ideograph(r) && !unicode.IsSpace(r) && !unicode.IsPunct(r)
}

// ideograph reports whether BERT's tokenizer treats the character as a word.
func ideograph(r rune) bool {
	for _, of := range [...][2]rune{
		{0x4e00, 0x9fff}, {0x3400, 0x4dbf}, {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0xf900, 0xfaff}, {0x2f800, 0x2fa1f},
	} {
		if of[0] <= r && r <= of[1] {
			return true
		}
	}
	return false
}
