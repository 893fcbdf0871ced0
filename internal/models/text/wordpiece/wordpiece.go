// Package wordpiece turns texts into the token ids of BERT's vocabularies. The ids equal those of
// Hugging Face's library tokenizers for every text.
package wordpiece

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/internal/runes"
	"github.com/afterbay/afterbay/internal/models/text/internal/terms"
)

// Tokenizer splits texts into word pieces. It is immutable, safe for concurrent use and does not
// allocate.
type Tokenizer struct {
	table *runes.Map
	ascii [utf8.RuneSelf]uint16 // the byte that it becomes, or its action
	marks map[rune]uint8        // combining classes of the marks that are kept and sorted

	first, next    *terms.Table // pieces that begin a word and that continue a word, by id
	unknown        int64
	wordRunesMax   int
	before, behind []int64 // special tokens around a text
	specials       []special
	starts         string // first bytes of specials
	buffers        sync.Pool
	digest         string
}

// Digest returns the sha256 of the file, 64 hex digits.
func (t *Tokenizer) Digest() string { return t.digest }

// Around returns how many special tokens are added around a text.
func (t *Tokenizer) Around() int { return len(t.before) + len(t.behind) }

// special is a token that is matched verbatim in a text.
type special struct {
	text string
	id   int64
}

// Actions of ASCII bytes that are not a plain part of a word.
const (
	drop = 1 << (8 + iota)
	separate
	alone // a separator that is a word of its own
)

// Flags of the runes that a code point becomes.
const (
	separator = 1 << iota
	punctuated
	mark
	barrier
)

// barrierRune replaces removed characters and keeps marks apart.
const barrierRune = 1<<21 - 1

// scratch is the working memory of a call: the current word.
type scratch struct {
	word  []byte
	runes int
	sorts int // earliest position of the marks that are sorted
	ids   []int64
	limit int
}

// Append appends the ids of a text to ids, with the special tokens that the models of the
// vocabulary require, and returns the extended slice. If the result has more than limit tokens,
// special ones included, the end of the text is cut off. A limit below 1 means no limit. Each byte
// that is not UTF-8 is U+FFFD, which is dropped.
func (t *Tokenizer) Append(ids []int64, text string, limit int) []int64 {
	s := t.buffers.Get().(*scratch)
	before := len(ids)
	s.ids = append(ids, t.before...)
	s.limit = len(ids) + limit - len(t.behind)
	if limit < 1 {
		s.limit = int(^uint(0) >> 1)
	}
	for text != "" && len(s.ids) < s.limit {
		at, found := t.findSpecial(text)
		t.split(s, text[:at])
		if found != nil {
			s.ids = append(s.ids, found.id)
			at += len(found.text)
		}
		text = text[at:]
	}
	ids = s.ids
	if len(ids) > s.limit {
		ids = ids[:max(s.limit, before)]
	}
	ids = append(ids, t.behind...)
	s.ids = nil
	if cap(s.word) <= 1<<16 {
		t.buffers.Put(s)
	}
	return ids
}

// findSpecial returns the position of the first special token, and the longest token there. Without
// a special token it returns the end of the text.
func (t *Tokenizer) findSpecial(text string) (int, *special) {
	for at := 0; ; at++ {
		next := -1
		if len(t.starts) == 1 {
			next = strings.IndexByte(text[at:], t.starts[0])
		} else if t.starts != "" {
			next = indexOf(text[at:], t.starts)
		}
		if next < 0 {
			return len(text), nil
		}
		at += next
		var found *special
		for i := range t.specials {
			s := &t.specials[i]
			if strings.HasPrefix(text[at:], s.text) && (found == nil || len(s.text) > len(found.text)) {
				found = s
			}
		}
		if found != nil {
			return at, found
		}
	}
}

// indexOf returns the position of the first byte of text that is in some, or -1.
func indexOf(text, some string) int {
	for i := range len(text) {
		if strings.IndexByte(some, text[i]) >= 0 {
			return i
		}
	}
	return -1
}

// split finds the words of a text without special tokens.
func (t *Tokenizer) split(s *scratch, text string) {
	s.word, s.runes, s.sorts = s.word[:0], 0, 0
	word := s.word
	for i := 0; i < len(text); {
		b := text[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			i += n
			s.word = word
			t.add(s, r)
			word = s.word
			if len(s.ids) >= s.limit {
				break
			}
			continue
		}
		i++
		c := t.ascii[b]
		if c < drop {
			word = append(word, byte(c))
			s.runes++
			continue
		}
		if c&drop != 0 || c == separate && len(word) == 0 {
			continue
		}
		s.word = word
		t.finish(s)
		if c&alone != 0 {
			s.word, s.runes = append(s.word, byte(c)), 1
			t.finish(s)
		}
		word = s.word
		if len(s.ids) >= s.limit {
			return
		}
	}
	s.word = word
	t.finish(s)
}

// add adds the normalized form of a rune.
func (t *Tokenizer) add(s *scratch, r rune) {
	become := t.table.Get(r)
	if !become.Many() {
		t.put(s, become.Value(r), become.Flags())
		return
	}
	for _, part := range t.table.Text(become) {
		t.put(s, part.Value(0), part.Flags())
	}
}

func (t *Tokenizer) put(s *scratch, r rune, flags uint32) {
	switch {
	case flags == 0:
		s.word = utf8.AppendRune(s.word, r)
		s.runes++
	case flags&mark != 0:
		t.sort(s, r)
		s.runes++
	case flags&barrier != 0:
		s.sorts = len(s.word)
	default:
		t.finish(s)
		if flags&punctuated != 0 {
			s.word, s.runes = utf8.AppendRune(s.word, r), 1
			t.finish(s)
		}
	}
}

// sort moves a mark after the preceding marks with a combining class that is not higher, as
// normalization does.
func (t *Tokenizer) sort(s *scratch, r rune) {
	class := t.marks[r]
	at := len(s.word)
	for at > s.sorts {
		before, n := utf8.DecodeLastRune(s.word[s.sorts:at])
		if t.marks[before] <= class {
			break
		}
		at -= n
	}
	end := len(s.word)
	s.word = utf8.AppendRune(s.word, r)
	if n := len(s.word) - end; at < end {
		copy(s.word[at+n:], s.word[at:end])
		utf8.AppendRune(s.word[:at], r)
	}
}

// finish appends the pieces of the word, always the longest piece that fits from the left. If a
// part of the word has no piece, the whole word is unknown.
func (t *Tokenizer) finish(s *scratch) {
	word := s.word
	count := s.runes
	s.word, s.runes, s.sorts = word[:0], 0, 0
	if len(word) == 0 {
		return
	}
	if count > t.wordRunesMax {
		s.ids = append(s.ids, t.unknown)
		return
	}
	before := len(s.ids)
	pieces := t.first
	for len(word) > 0 {
		end := min(len(word), pieces.Longest())
		for end > 0 {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				end--
				continue
			}
			if id, ok := pieces.Find(word[:end]); ok {
				s.ids = append(s.ids, int64(id))
				break
			}
			end--
		}
		if end == 0 {
			s.ids = append(s.ids[:before], t.unknown)
			return
		}
		word = word[end:]
		pieces = t.next
	}
}
