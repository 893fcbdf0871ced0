package text

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/internal/terms"
)

// vectorizer counts the terms of a text, as CountVectorizer, TfidfVectorizer and HashingVectorizer
// of scikit-learn do.
//
// It folds the text into a buffer that holds each term, n-grams included, contiguously: words are
// separated by one space. It looks up terms without copying them.
type vectorizer struct {
	input      int
	first      int // its first column
	columns    int
	analyzer   analyzer
	folder     *folder
	pattern    *pattern
	grams      [2]int
	stop       *terms.Table // nil if there are no stop words, or if the vocabulary has none of them
	vocabulary *terms.Table // nil if terms are hashed
	alternate  bool         // the count has the sign of the hash
	binary     bool
	sublinear  bool
	norm       norm
}

type analyzer int

const (
	words analyzer = iota
	chars
	charsOfWords
)

// span is a part of the buffer.
type span struct{ start, end int32 }

// count writes the columns of a text and their weights. The error is errLook.
func (v *vectorizer) count(s *scratch, weights []float64, stride int, text string) error {
	from := len(s.entries)
	switch {
	case v.analyzer == chars:
		v.chars(s, text)
	case v.analyzer == charsOfWords:
		v.charsOfWords(s, text)
	case v.pattern.expression == nil:
		v.runs(s, text)
		v.wordGrams(s)
	default:
		if err := v.matches(s, text); err != nil {
			return err
		}
		v.wordGrams(s)
	}
	entries := s.entries[from:]
	for i := range entries {
		e := &entries[i]
		switch {
		case v.binary: // also if sublinear: the logarithm of 1 is 0
			e.value = 1
		case v.sublinear:
			e.value = math.Log(e.value) + 1
		}
		e.value *= weights[int(e.column)*stride]
	}
	v.norm.apply(entries)
	return nil
}

// runs finds tokens that are runs of a class of characters.
func (v *vectorizer) runs(s *scratch, text string) {
	buffer, start, length, bad := slices.Grow(s.buffer[:0], len(text)), 0, 0, uint32(0)
	ascii := &v.folder.ascii
	for i := 0; i < len(text); {
		from, flags := i, uint16(0)
		for i < len(text) {
			folded := ascii[text[i]]
			if folded&(inRun<<8) == 0 {
				break
			}
			flags |= folded
			buffer = append(buffer, byte(folded))
			i++
		}
		length, bad = length+i-from, bad|uint32(flags>>8)
		if i == len(text) {
			break
		}
		if text[i] < utf8.RuneSelf {
			i++
			if length > 0 {
				buffer = v.token(s, buffer, start, length, bad)
				start, length, bad = len(buffer), 0, 0
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		become := v.folder.table.Get(r)
		if become.Many() {
			for _, part := range v.folder.table.Text(become) {
				if part.Flags()&inRun != 0 {
					buffer = utf8.AppendRune(buffer, part.Value(0))
					length++
					bad |= part.Flags()
				} else if length > 0 {
					buffer = v.token(s, buffer, start, length, bad)
					start, length, bad = len(buffer), 0, 0
				}
			}
			i += n
			continue
		}
		kind, to := become.Flags(), become.Value(r)
		if r == v.folder.sigma {
			if to = v.folder.sigmaAt(text, i); to == finalSigma {
				kind = v.folder.finalFlags
			}
		}
		i += n
		if kind&inRun != 0 {
			buffer = utf8.AppendRune(buffer, to)
			length++
			bad |= kind
		} else if length > 0 {
			buffer = v.token(s, buffer, start, length, bad)
			start, length, bad = len(buffer), 0, 0
		}
	}
	if length > 0 {
		buffer = v.token(s, buffer, start, length, bad)
	}
	s.buffer = buffer
}

// token takes the run of length runes at the end of the buffer. It returns the buffer for the next
// run.
func (v *vectorizer) token(s *scratch, buffer []byte, start, length int, flags uint32) []byte {
	token := buffer[start:]
	if length < v.pattern.minimum || flags&noToken != 0 {
		return buffer[:start]
	}
	if v.stop != nil {
		if _, stopped := v.stop.Find(token); stopped {
			return buffer[:start]
		}
	}
	if v.grams[1] == 1 {
		v.term(s, token)
		return buffer[:start]
	}
	s.spans = append(s.spans, span{int32(start), int32(len(buffer))})
	return append(buffer, ' ')
}

// wordGrams counts the n-grams of the tokens in spans, and removes the tokens.
func (v *vectorizer) wordGrams(s *scratch) {
	for n := v.grams[0]; n <= min(v.grams[1], len(s.spans)); n++ {
		for i := range len(s.spans) - n + 1 {
			v.term(s, s.buffer[s.spans[i].start:s.spans[i+n-1].end])
		}
	}
	s.spans = s.spans[:0]
}

// term counts a term.
func (v *vectorizer) term(s *scratch, term []byte) {
	if v.vocabulary != nil {
		if id, ok := v.vocabulary.Find(term); ok {
			s.tally(uint32(v.first+id), 1)
		}
		return
	}
	hash := murmur3(term)
	column := int64(hash)
	if column < 0 {
		column = -column
	}
	count := 1.0
	if v.alternate && hash < 0 {
		count = -1
	}
	s.tally(uint32(v.first)+uint32(column%int64(v.columns)), count)
}

// matches finds the tokens of a pattern that is not a run.
func (v *vectorizer) matches(s *scratch, text string) error {
	s.fold(v.folder, text, false)
	folded := s.buffer
	s.buffer = s.other[:0]
	search := v.pattern.search(folded)
	for at := 0; at < len(folded); {
		found, err := search.next(folded[at:])
		if err != nil {
			s.other, s.spans = folded, s.spans[:0]
			return err
		}
		if found == nil {
			break
		}
		start := len(s.buffer)
		s.buffer = append(s.buffer, folded[at+found[0]:at+found[1]]...)
		s.buffer = v.token(s, s.buffer, start, found[1]-found[0], 0)
		at += found[1]
	}
	s.other = folded
	return nil
}

// fold folds a whole text into the buffer. It records the start of each rune, the end after the
// last rune, and the kinds of the runes. If padded is set, it adds a space at both ends.
func (s *scratch) fold(f *folder, text string, padded bool) {
	s.buffer, s.starts, s.kinds = s.buffer[:0], s.starts[:0], s.kinds[:0]
	add := func(r rune, flags uint32) {
		s.starts, s.kinds = append(s.starts, int32(len(s.buffer))), append(s.kinds, uint8(flags))
		s.buffer = utf8.AppendRune(s.buffer, r)
	}
	if padded {
		add(' ', isSpace)
	}
	for i, r := range text {
		become := f.table.Get(r)
		switch {
		case become.Many():
			for _, part := range f.table.Text(become) {
				add(part.Value(0), part.Flags())
			}
		case r == f.sigma:
			add(f.sigmaAt(text, i), become.Flags())
		default:
			add(become.Value(r), become.Flags())
		}
	}
	if padded {
		add(' ', isSpace)
	}
	s.starts = append(s.starts, int32(len(s.buffer)))
}

// squeeze replaces two or more spaces by one, as the expression \s\s+ finds them. If all is set, it
// also replaces single ones.
func (s *scratch) squeeze(all bool) {
	folded := s.buffer
	s.buffer = s.other[:0]
	out := 0
	for i := 0; i < len(s.kinds); {
		end := i + 1
		for s.kinds[i]&isSpace != 0 && end < len(s.kinds) && s.kinds[end]&isSpace != 0 {
			end++
		}
		start, kind := int32(len(s.buffer)), s.kinds[i]
		if end > i+1 || all && kind&isSpace != 0 {
			s.buffer = append(s.buffer, ' ')
		} else {
			s.buffer = append(s.buffer, folded[s.starts[i]:s.starts[end]]...)
		}
		// Writes stay behind reads.
		s.starts[out], s.kinds[out] = start, kind
		out, i = out+1, end
	}
	s.starts, s.kinds = append(s.starts[:out], int32(len(s.buffer))), s.kinds[:out]
	s.other = folded
}

// chars counts n-grams of characters.
func (v *vectorizer) chars(s *scratch, text string) {
	s.fold(v.folder, text, false)
	s.squeeze(false)
	for n := v.grams[0]; n <= min(v.grams[1], len(s.kinds)); n++ {
		for i := range len(s.kinds) - n + 1 {
			v.term(s, s.buffer[s.starts[i]:s.starts[i+n]])
		}
	}
}

// charsOfWords counts n-grams of characters within words, which have a space at each end. A word of
// at most n characters has one n-gram of that length, and no longer ones.
func (v *vectorizer) charsOfWords(s *scratch, text string) {
	s.fold(v.folder, text, true)
	s.squeeze(true)
	for from := 0; from < len(s.kinds)-1; {
		end := from + 1
		for s.kinds[end]&isSpace == 0 {
			end++
		}
		length := end + 1 - from
		for n := v.grams[0]; n <= v.grams[1]; n++ {
			for i := range max(1, length-n+1) {
				v.term(s, s.buffer[s.starts[from+i]:s.starts[min(from+i+n, end+1)]])
			}
			if n >= length {
				break
			}
		}
		from = end
	}
}
