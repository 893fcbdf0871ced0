package chunk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/google/go-cmp/cmp"
)

// document is a text whose words, sentences and sections are known as it is written: the
// reference reads no text.
type document struct {
	strings.Builder
	random    *rand.Rand
	words     []span
	sentences [][2]int // of words
	sections  []int    // first sentence of each
	paths     []string
	titles    [6]string
}

func (d *document) pick(list ...string) string { return list[d.random.IntN(len(list))] }

func (d *document) word(text string) {
	d.words = append(d.words, span{d.Len(), d.Len() + len(text), 1})
	d.WriteString(text)
}

// sentence writes words, with what looks like an end among them.
func (d *document) sentence() {
	first := len(d.words)
	d.word(d.pick("Boat", "Ärzte", "7", "漢", "Ω", "€", "X1"))
	for range d.random.IntN(20) {
		switch d.random.IntN(8) {
		case 0:
			d.word(d.pick(",", ";", "-", "—", "#", "字"))
		case 1:
			d.word(".") // no end: a lower-case letter follows
			d.WriteString(" ")
			d.word(d.pick("e", "g", "été"))
		case 2:
			d.WriteString(" ")
			d.word("3")
			d.word(".")
			d.word("14")
		default:
			d.WriteString(d.pick(" ", "  ", "\n", "\t"))
			d.word(d.pick("sail", "cafe\u0301", "漢", "字", "ветер", "wind9", "🙂", "g🙂", "a\u200db"))
		}
	}
	end := d.pick(".", "!", "?", "…", "。", "！", "？」", "｡", ".”", "?!")
	for _, r := range end {
		d.word(string(r))
	}
	d.sentences = append(d.sentences, [2]int{first, len(d.words)})
	if strings.ContainsAny(end, "。！？｡") && d.random.IntN(2) == 0 {
		return // no white space follows
	}
	d.WriteString(d.pick(" ", "\n", "\n\n", "  "))
}

// fence writes code with a line that looks like a heading.
func (d *document) fence() {
	d.WriteString("\n\n")
	first := len(d.words)
	for i, line := range []string{"```", "# code", "```"} {
		if i > 0 {
			d.WriteString("\n")
		}
		for _, part := range strings.Fields(line) {
			if part == "code" {
				d.WriteString(" ")
				d.word(part)
				continue
			}
			for _, r := range part {
				d.word(string(r))
			}
		}
	}
	d.sentences = append(d.sentences, [2]int{first, len(d.words)})
	d.WriteString("\n\n")
}

func (d *document) heading() {
	d.WriteString("\n\n")
	level, title := 1+d.random.IntN(6), d.pick("Boats", "Sails", "")
	first := len(d.words)
	for range level {
		d.word("#")
	}
	if title != "" {
		d.WriteString(" ")
		d.word(title)
	}
	d.titles[level-1] = title
	for i := level; i < len(d.titles); i++ {
		d.titles[i] = ""
	}
	d.sections = append(d.sections, len(d.sentences))
	d.paths = append(d.paths, strings.Join(slices.DeleteFunc(slices.Clone(d.titles[:]), func(t string) bool { return t == "" }), " > "))
	d.sentences = append(d.sentences, [2]int{first, len(d.words)})
	d.WriteString("\n")
}

func newDocument(random *rand.Rand) *document {
	d := &document{random: random, sections: []int{0}, paths: []string{""}}
	d.WriteString(d.pick("", " ", "\n"))
	for range random.IntN(30) {
		switch random.IntN(6) {
		case 0:
			d.heading()
		case 1:
			d.fence()
		default:
			d.sentence()
		}
	}
	return d
}

// units returns the units of sentences: groups of words that fill chunks.
func (d *document) units(sentences [][2]int, size int) (units []span) {
	for _, s := range sentences {
		for group := range slices.Chunk(d.words[s[0]:s[1]], size) {
			units = append(units, span{group[0].from, group[len(group)-1].to, len(group)})
		}
	}
	return units
}

// want packs units by the definition: the longest chunk that fits, then the earliest next one.
func (d *document) want(units []span, s *Splitter, heading string) (chunks []Chunk) {
	sum := func(from, to int) (tokens int) {
		for _, u := range units[from:to] {
			tokens += u.tokens
		}
		return tokens
	}
	for first := 0; first < len(units); {
		end := len(units)
		for sum(first, end) > s.Size {
			end--
		}
		text := d.String()[units[first].from:units[end-1].to]
		start := len([]rune(d.String()[:units[first].from]))
		chunks = append(chunks, Chunk{text, heading, start, start + len([]rune(text)), sum(first, end)})
		if end == len(units) {
			break
		}
		for first++; sum(first, end) > s.Overlap || sum(first, end+1) > s.Size; {
			first++
		}
	}
	return chunks
}

func (d *document) chunks(s *Splitter) (all []Chunk) {
	switch s.By {
	case Tokens:
		return d.want(d.words, s, "")
	case Sentences:
		// A text that is no Markdown has the same sentences: headings end at an empty line or not.
		return d.want(d.units(d.sentences, s.Size), s, "")
	}
	for i, first := range d.sections {
		end := len(d.sentences)
		if i+1 < len(d.sections) {
			end = d.sections[i+1]
		}
		all = append(all, d.want(d.units(d.sentences[first:end], s.Size), s, d.paths[i])...)
	}
	return all
}

// TestChunksAreThoseOfTheReference compares with chunks of documents whose words, sentences and
// sections are known beforehand.
func TestChunksAreThoseOfTheReference(t *testing.T) {
	several := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		d := newDocument(random)
		s := &Splitter{By: []By{Tokens, Sentences, Headings}[seed%3], Size: SizeMin + random.IntN(40), Max: ChunksMax}
		s.Overlap = random.IntN(s.Size/2 + 1)
		if s.By == Sentences && len(d.sections) > 1 {
			continue // the line of a heading is a sentence only of Markdown
		}
		got, err := s.Split(d.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(d.chunks(s), got); diff != "" {
			t.Fatalf("seed %d, by %s, size %d, overlap %d, of %q: (-want +got)\n%s", seed, s.By, s.Size, s.Overlap, d.String(), diff)
		}
		several += min(1, len(got)/2)
	}
	if several < 1000 {
		t.Errorf("%d documents have several chunks, want 1,000 or more", several)
	}
}

// vocabulary has pieces of one and two letters.
func vocabulary(t testing.TB) *wordpiece.Tokenizer {
	t.Helper()
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "漢", "sa", "##il", "##nd"}
	for r := 'a'; r <= 'z'; r++ {
		words = append(words, string(r), "##"+string(r))
	}
	tokenizer, err := wordpiece.Parse("vocab.txt", []byte(strings.Join(words, "\n")+"\n"), wordpiece.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

// TestTokensAreThoseOfTheTokenizer counts the tokens of whole chunks, and looks for each
// character of the text in a chunk.
func TestTokensAreThoseOfTheTokenizer(t *testing.T) {
	tokenizer := vocabulary(t)
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 2))
		d := newDocument(random)
		d.WriteString(strings.Repeat("sail", random.IntN(40))) // has more tokens than some chunks
		s := &Splitter{By: []By{Tokens, Sentences, Headings}[seed%3], Size: SizeMin + random.IntN(40), Max: ChunksMax, Tokenizer: tokenizer}
		s.Overlap = random.IntN(s.Size/2 + 1)
		chunks, err := s.Split(d.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		runes, end := []rune(d.String()), 0
		for i, c := range chunks {
			whole := len(tokenizer.Append(nil, c.Text, 0)) - tokenizer.Around()
			switch {
			case c.Tokens > s.Size:
				t.Fatalf("seed %d: chunk %d has %d tokens of %d: %q", seed, i, c.Tokens, s.Size, c.Text)
			case c.Tokens != whole && !strings.Contains(c.Text, "sailsail"): // parts of a word begin words here
				t.Fatalf("seed %d: chunk %d has %d tokens, and the tokenizer says %d: %q", seed, i, c.Tokens, whole, c.Text)
			case string(runes[c.Start:c.End]) != c.Text:
				t.Fatalf("seed %d: chunk %d is not at %d to %d: %q", seed, i, c.Start, c.End, c.Text)
			case c.Start > end && strings.TrimFunc(string(runes[end:c.Start]), unicode.IsSpace) != "":
				t.Fatalf("seed %d: %q is in no chunk", seed, string(runes[end:c.Start]))
			case c.End <= end:
				t.Fatalf("seed %d: chunk %d ends at %d, and the one before at %d", seed, i, c.End, end)
			}
			end = c.End
		}
		if left := strings.TrimFunc(string(runes[end:]), unicode.IsSpace); left != "" {
			t.Fatalf("seed %d: %q is in no chunk", seed, left)
		}
	}
}

func TestMaxBoundsChunks(t *testing.T) {
	s := &Splitter{By: Tokens, Size: 16, Max: 3}
	if chunks, err := s.Split(strings.Repeat("a ", 48)); len(chunks) != 3 || err != nil {
		t.Errorf("%d chunks, %v", len(chunks), err)
	}
	if _, err := s.Split(strings.Repeat("a ", 49)); err == nil || !strings.Contains(err.Error(), "more than 3 chunks") {
		t.Errorf("%v", err)
	}
}

func TestLongWordsAreSeveral(t *testing.T) {
	s := &Splitter{By: Tokens, Size: 16, Max: 100}
	chunks, err := s.Split(strings.Repeat("ä", 16*wordRunesMax+1))
	if err != nil || len(chunks) != 2 || chunks[1] != (Chunk{Text: "ä", Start: 1600, End: 1601, Tokens: 1}) {
		t.Errorf("%v, %v", chunks, err)
	}
}

func TestHeadings(t *testing.T) {
	for line, want := range map[string]string{
		"# a": "1 a", "   ## a ##": "2 a", "###### a": "6 a", "####### a": "0 ", "#a": "0 ", "    # a": "0 ", "#": "1 ", "## C#": "2 C#", "# a \r\n": "1 a", "a": "0 ", "# #": "1 ", "#\ta": "1 a",
	} {
		if level, title := headingOf(line); fmt.Sprint(level, " ", title) != want {
			t.Errorf("%q: %d %q, want %s", line, level, title, want)
		}
	}
}

// TestLongTitlesAreCut has a title of many characters, and far more sections than chunks.
func TestLongTitlesAreCut(t *testing.T) {
	text := "# " + strings.Repeat("é ", 1000) + strings.Repeat("\n## a\nb", 100_000)
	s := &Splitter{By: Headings, Size: 8192, Max: 100}
	allocated := testing.AllocsPerRun(1, func() {
		if _, err := s.Split(text); err == nil {
			t.Error("no error")
		}
	})
	if allocated > 5000 {
		t.Errorf("%v allocations", allocated)
	}
	s.Max = ChunksMax
	chunks, err := s.Split(text[:len(text)-7*99_999])
	if err != nil || len(chunks) != 2 || !strings.HasSuffix(chunks[1].Heading, " > a") {
		t.Fatalf("%v, %.80v", err, chunks)
	}
	for _, c := range chunks {
		if len(c.Heading) > titleMax+len(" > a") || !utf8.ValidString(c.Heading) {
			t.Errorf("%d bytes of titles: %q", len(c.Heading), c.Heading)
		}
	}
}

// BenchmarkSplit splits a document of 16 KiB.
func BenchmarkSplit(b *testing.B) {
	text := strings.Repeat("A boat has a hull, and sails that the wind fills. ", 328)[:16<<10]
	for _, by := range []By{Tokens, Sentences, Headings} {
		for _, tokenizer := range []*wordpiece.Tokenizer{nil, vocabulary(b)} {
			b.Run(fmt.Sprintf("by=%s/tokenizer=%v", by, tokenizer != nil), func(b *testing.B) {
				s := &Splitter{By: by, Size: 256, Overlap: 32, Max: ChunksMax, Tokenizer: tokenizer}
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Split(text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
