package wordpiece

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/internal/runes"
	"github.com/afterbay/afterbay/internal/models/text/internal/terms"
)

const (
	fileMax = 64 << 20
	idMax   = 1 << 22
)

// Options say how to use a vocabulary if its file does not say so. The zero value is right for the
// uncased models of BERT.
type Options struct {
	// Cased keeps capitals and accents, as BERT's cased models do.
	Cased bool
}

// config says how a tokenizer works; a tokenizer.json has all of it.
type config struct {
	clean, ideographs, strip, lower bool

	vocabulary     []string // by id
	unknown        string
	prefix         string
	wordRunesMax   int
	before, behind []int64
	specials       []special
}

// Load reads a file as Parse does. It refuses files of more than 64 MiB.
func Load(path string, options Options) (*Tokenizer, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if !about.Mode().IsRegular() || about.Size() > fileMax {
		return nil, fmt.Errorf("load tokenizer: %s is not a regular file of at most %d bytes", path, fileMax)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	return Parse(filepath.Base(path), data, options)
}

// Parse reads a tokenizer.json of the library tokenizers, or a vocab.txt with one token per line.
// It detects the format from the content. The name is for error messages only.
//
// A tokenizer.json has a BertNormalizer, a BertPreTokenizer, a WordPiece model and [CLS] and [SEP]
// around a text. Parse refuses anything else that changes tokens, by name. It ignores truncation
// and padding, which the caller handles. For a vocab.txt the options apply. [PAD], [UNK], [CLS],
// [SEP] and [MASK] are its special tokens, and [UNK], [CLS] and [SEP] are required.
func Parse(name string, data []byte, options Options) (*Tokenizer, error) {
	t, err := parse(data, options)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	t.digest = fmt.Sprintf("%x", sha256.Sum256(data))
	return t, nil
}

func parse(data []byte, options Options) (*Tokenizer, error) {
	if len(data) > fileMax {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), fileMax)
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		c, err := parseJSON(data)
		if err != nil {
			return nil, err
		}
		return c.tokenizer()
	}
	c := &config{
		clean: true, ideographs: true, strip: !options.Cased, lower: !options.Cased,
		unknown: "[UNK]", prefix: "##", wordRunesMax: 100,
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	for line := range strings.Lines(string(data)) {
		c.vocabulary = append(c.vocabulary, strings.TrimRight(line, "\r\n"))
	}
	for _, text := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		id := int64(slices.Index(c.vocabulary, text))
		switch {
		case id < 0 && text != "[PAD]" && text != "[MASK]":
			return nil, fmt.Errorf("%s is not in the vocabulary of %d tokens", text, len(c.vocabulary))
		case id < 0:
			continue
		case text == "[CLS]":
			c.before = []int64{id}
		case text == "[SEP]":
			c.behind = []int64{id}
		}
		c.specials = append(c.specials, special{text, id})
	}
	return c.tokenizer()
}

// tokenizer builds the tables.
func (c *config) tokenizer() (*Tokenizer, error) {
	t := &Tokenizer{
		wordRunesMax: c.wordRunesMax, before: c.before, behind: c.behind, specials: c.specials, marks: map[rune]uint8{},
	}
	t.buffers.New = func() any { return &scratch{} }
	for _, s := range c.specials {
		if s.text == "" {
			return nil, errors.New("a special token is empty")
		}
		if strings.IndexByte(t.starts, s.text[0]) < 0 {
			t.starts += s.text[:1]
		}
	}
	unknown := slices.Index(c.vocabulary, c.unknown)
	if unknown < 0 || c.unknown == "" {
		return nil, fmt.Errorf("unknown token %q is not in the vocabulary", c.unknown)
	}
	t.unknown = int64(unknown)
	continuing := make([]string, len(c.vocabulary))
	for id, text := range c.vocabulary {
		if rest, ok := strings.CutPrefix(text, c.prefix); ok {
			continuing[id] = rest
		}
	}
	var err error
	if t.first, err = terms.New(c.vocabulary); err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	if t.next, err = terms.New(continuing); err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	if c.strip {
		for i := 0; i < len(marks); i += 2 {
			t.marks[marks[i]] = uint8(marks[i+1])
		}
	}
	classes := runes.Classes(dropped, spaces, ideographs, removed, barriers, separators, punctuation)
	t.table = runes.Build(c.normalize(classes), func(r rune) uint32 {
		switch {
		case r == barrierRune:
			return barrier
		case classes[r]&isSeparator != 0:
			return separator
		case classes[r]&isPunctuation != 0:
			return punctuated
		case t.marks[r] != 0:
			return mark
		}
		return 0
	})
	for b := range t.ascii {
		become := t.table.Get(rune(b))
		switch {
		case become.Many():
			t.ascii[b] = drop
		case become.Flags()&separator != 0:
			t.ascii[b] = separate
		case become.Flags()&punctuated != 0:
			t.ascii[b] = alone | uint16(b)
		default:
			t.ascii[b] = uint16(become.Value(rune(b)))
		}
	}
	return t, nil
}

// Classes of code points, one for each of the tables.
const (
	isDropped = 1 << iota
	isSpace
	isIdeograph
	isRemoved
	isBarrier
	isSeparator
	isPunctuation
)

// normalize returns the function that normalizes a code point.
func (c *config) normalize(classes []uint8) func(rune) []rune {
	changed := make([]bool, runes.End) // by lower or accents; a slice, because a million map lookups are slow
	lower, stripped := map[rune][]rune{}, map[rune][]rune{}
	for i := 0; i < len(lowered); i += 4 {
		for r := lowered[i]; r <= lowered[i+1]; r += lowered[i+2] {
			lower[r] = []rune{r + lowered[i+3]}
		}
	}
	into(lower, loweredTexts)
	into(stripped, strippedTexts)
	for r := range lower {
		changed[r] = true
	}
	for r := range stripped {
		changed[r] = true
	}
	var one [1]rune
	accents := func(r rune) []rune {
		switch to, ok := stripped[r]; {
		case ok:
			return to
		case classes[r]&isBarrier != 0:
			return []rune{barrierRune}
		case classes[r]&isRemoved != 0:
			return nil
		}
		return runes.Hangul(r)
	}
	return func(r rune) []rune {
		if c.clean && classes[r]&isDropped != 0 {
			return nil
		}
		if c.clean && classes[r]&isSpace != 0 {
			return []rune{' '}
		}
		if !changed[r] && classes[r]&(isRemoved|isIdeograph) == 0 && !runes.IsHangul(r) {
			one[0] = r
			return one[:]
		}
		all := []rune{r}
		if c.strip {
			all = accents(r)
		}
		if c.lower {
			var small []rune
			for _, r := range all {
				if to, ok := lower[r]; ok {
					small = append(small, to...)
				} else {
					small = append(small, r)
				}
			}
			all = small
		}
		if c.ideographs && classes[r]&isIdeograph != 0 {
			all = append([]rune{' '}, append(all, ' ')...)
		}
		return all
	}
}

// into reads lines with a character and its replacement.
func into(table map[rune][]rune, lines string) {
	for line := range strings.Lines(lines) {
		all := []rune(line)
		table[all[0]] = all[1 : len(all)-1]
	}
}

// document is a tokenizer.json.
type document struct {
	Version     string `json:"version"`
	AddedTokens []struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer *struct {
		Type         string `json:"type"`
		CleanText    bool   `json:"clean_text"`
		Ideographs   bool   `json:"handle_chinese_chars"`
		StripAccents *bool  `json:"strip_accents"`
		Lowercase    bool   `json:"lowercase"`
	} `json:"normalizer"`
	PreTokenizer *struct {
		Type string `json:"type"`
	} `json:"pre_tokenizer"`
	PostProcessor *postProcessor `json:"post_processor"`
	Model         struct {
		Type         string           `json:"type"`
		Unknown      string           `json:"unk_token"`
		Prefix       string           `json:"continuing_subword_prefix"`
		WordRunesMax int              `json:"max_input_chars_per_word"`
		Vocabulary   map[string]int64 `json:"vocab"`
	} `json:"model"`
}

type postProcessor struct {
	Type   string          `json:"type"`
	Sep    json.RawMessage `json:"sep"` // a text and an id
	Cls    json.RawMessage `json:"cls"`
	Single []struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct {
			ID string `json:"id"`
		} `json:"Sequence"`
	} `json:"single"`
	Specials map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
}

func parseJSON(data []byte) (*config, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	n := d.Normalizer
	switch {
	case d.Model.Type != "WordPiece" && d.Model.Type != "":
		return nil, fmt.Errorf("model %q is not WordPiece", d.Model.Type)
	case n == nil || n.Type != "BertNormalizer":
		return nil, errors.New("the normalizer is not a BertNormalizer")
	case d.PreTokenizer == nil || d.PreTokenizer.Type != "BertPreTokenizer":
		return nil, errors.New("the pre_tokenizer is not a BertPreTokenizer")
	case d.Model.WordRunesMax < 1 || d.Model.WordRunesMax > 10_000:
		return nil, fmt.Errorf("max_input_chars_per_word is %d, from 1 to 10000", d.Model.WordRunesMax)
	}
	c := &config{
		clean: n.CleanText, ideographs: n.Ideographs, lower: n.Lowercase, strip: n.Lowercase,
		unknown: d.Model.Unknown, prefix: d.Model.Prefix, wordRunesMax: d.Model.WordRunesMax,
	}
	if n.StripAccents != nil {
		c.strip = *n.StripAccents
	}
	for text, id := range d.Model.Vocabulary {
		if id < 0 || id >= idMax || text == "" {
			return nil, fmt.Errorf("token %q has id %d, from 0 to %d", text, id, idMax-1)
		}
		for int(id) >= len(c.vocabulary) {
			c.vocabulary = append(c.vocabulary, "")
		}
		if c.vocabulary[id] != "" {
			return nil, fmt.Errorf("tokens %q and %q have id %d", text, c.vocabulary[id], id)
		}
		c.vocabulary[id] = text
	}
	for _, a := range d.AddedTokens {
		if a.SingleWord || a.LStrip || a.RStrip || a.Normalized {
			return nil, fmt.Errorf("added token %q is single_word, lstrip, rstrip or normalized", a.Content)
		}
		c.specials = append(c.specials, special{a.Content, a.ID})
	}
	return c, d.PostProcessor.around(c)
}

// around reads the tokens around a text.
func (p *postProcessor) around(c *config) error {
	if p == nil {
		return nil
	}
	switch p.Type {
	case "BertProcessing":
		for _, part := range []struct {
			data json.RawMessage
			into *[]int64
		}{{p.Cls, &c.before}, {p.Sep, &c.behind}} {
			var text string
			var id int64
			if err := json.Unmarshal(part.data, &[]any{&text, &id}); err != nil {
				return fmt.Errorf("post_processor: %w", err)
			}
			*part.into = []int64{id}
		}
		return nil
	case "TemplateProcessing":
		texts := 0
		for _, part := range p.Single {
			switch {
			case part.Sequence != nil && part.Sequence.ID == "A":
				texts++
			case part.Special != nil && texts == 0:
				c.before = append(c.before, p.Specials[part.Special.ID].IDs...)
			case part.Special != nil:
				c.behind = append(c.behind, p.Specials[part.Special.ID].IDs...)
			}
		}
		if texts != 1 {
			return fmt.Errorf("post_processor: the text stands %d times in the template", texts)
		}
		return nil
	}
	return fmt.Errorf("post_processor %q is not one of BertProcessing, TemplateProcessing", p.Type)
}
