// Package chunk splits documents into chunks with a limited number of tokens. A model embeds
// chunks, and a search finds them.
package chunk

import (
	"fmt"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
)

// By says where chunks begin and end.
type By string

// The ways of splitting.
const (
	Tokens    By = "tokens"    // at words
	Sentences By = "sentences" // at sentences; at words in longer ones
	Headings  By = "headings"  // each chunk is in one section of Markdown, else like Sentences
)

// Bounds of a Splitter.
const (
	SizeMin   = 16 // tokens: a single character has fewer in any vocabulary
	SizeMax   = 8192
	ChunksMax = 4000 // their ids fit in the state of a key
)

// Splitter splits texts. It is immutable and safe for concurrent use.
type Splitter struct {
	By        By
	Size      int                  // most tokens of a chunk, from SizeMin to SizeMax
	Overlap   int                  // tokens at the end of a chunk that the next one repeats, at most Size / 2
	Max       int                  // most chunks of a text; more are an error
	Tokenizer *wordpiece.Tokenizer // counts the tokens of words; nil counts each word as one
}

// Chunk is a part of a text.
type Chunk struct {
	Text       string
	Heading    string // the titles of its sections, separated by " > ", the first 200 bytes of each; only for Headings
	Start, End int    // characters (code points) of the text before its start, and before its end
	Tokens     int
}

// span is a part of a text by its bytes, and how many tokens it has.
type span struct{ from, to, tokens int }

// Split returns the chunks of a text, in order. Each character that is not white space is in a
// chunk. It fails if there are more than Max chunks.
func (s *Splitter) Split(text string) ([]Chunk, error) {
	p := packing{Splitter: s, text: text}
	switch s.By {
	case Tokens:
		p.pack(p.words(nil, text, span{to: len(text)}), "")
	case Sentences:
		p.pack(p.sentences(nil, text, span{to: len(text)}), "")
	case Headings:
		for section := range sections(text) {
			units := p.sentences(nil, text, section.title)
			if p.pack(p.sentences(units, text, section.body), section.path); len(p.made) > s.Max {
				break
			}
		}
	}
	if len(p.made) > s.Max {
		return nil, fmt.Errorf("the text has more than %d chunks, the max of the step: raise max, which is at most %d, or size", s.Max, ChunksMax)
	}
	return p.made, nil
}

// packing packs the units of a text into chunks.
type packing struct {
	*Splitter
	text string
	made []Chunk

	ids []int64 // token ids of a word

	// Characters are counted from the beginning of the newest chunk.
	byte, runes int
}

// pack groups units into chunks. Each unit has at most Size tokens. A chunk has as many units as
// fit. The next chunk begins with the last units of the chunk before, with at most Overlap tokens,
// such that one more unit fits.
func (p *packing) pack(units []span, heading string) {
	for first := 0; first < len(units) && len(p.made) <= p.Max; {
		end, tokens := first, 0
		for end < len(units) && tokens+units[end].tokens <= p.Size {
			tokens += units[end].tokens
			end++
		}
		p.add(units[first].from, units[end-1].to, tokens, heading)
		if end == len(units) {
			return
		}
		next, again := end, 0
		for next > first+1 {
			more := again + units[next-1].tokens
			if more > p.Overlap || more+units[end].tokens > p.Size {
				break
			}
			next, again = next-1, more
		}
		first = next
	}
}

func (p *packing) add(from, to, tokens int, heading string) {
	p.runes += utf8.RuneCountInString(p.text[p.byte:from])
	p.byte = from
	text := p.text[from:to]
	p.made = append(p.made, Chunk{Text: text, Heading: heading, Start: p.runes, End: p.runes + utf8.RuneCountInString(text), Tokens: tokens})
}
