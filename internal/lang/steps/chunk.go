package steps

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/text/chunk"
	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Chunk splits the text of a document into chunks. It also lists the chunks of the previous version
// that no longer exist.
type Chunk struct {
	Name      string // prefix of the names that the step introduces
	Text      string // expression of type string
	By        chunk.By
	Size      int    // tokens in a chunk; 0 is 256
	Overlap   int    // tokens that a chunk shares with the previous one
	Max       int    // most chunks; 0 is 200
	Tokenizer string // file of a tokenizer; "" counts words
}

const defaultSize = 256

// StepKind implements Step.
func (*Chunk) StepKind() *lang.StepKind { return &chunkKind }

var chunkKind = lang.KindOf("chunk", spec.State, spec.MappingOf(chunkFields), "{name: doc, text: body, by: sentences, size: 256, overlap: 32}",
	"splits the text of a document into chunks, and lists the chunks of its previous version that are gone. The key of the input identifies the document")

var chunkFields = []spec.Field[Chunk]{
	{Name: "name", Affects: spec.State, Required: true, Form: spec.Into(func(c *Chunk) *string { return &c.Name }, spec.ReadName),
		Example: "doc", Help: "begins the names of two lists. `doc.chunks` (`raw[]`) has an object for each chunk: `id`, `index`, `text`, `start`, `end`, `tokens`, `heading` and `new`. `doc.removed` (`string[]`) has the ids of chunks that were only in the previous version"},
	{Name: "text", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *Chunk) *string { return &c.Text }, spec.ReadExpression),
		Example: `body ?? ""`, Help: "the text, an expression of type string. A text that is empty has no chunks: all chunks of the previous version are removed"},
	{Name: "by", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *Chunk) *chunk.By { return &c.By }, spec.Choice[chunk.By](string(chunk.Tokens), string(chunk.Sentences), string(chunk.Headings))),
		Example: "sentences", Help: "where chunks begin and end: at words (`tokens`), at sentences, or at sentences of one section of Markdown (`headings`)"},
	{Name: "size", Affects: spec.Outputs, Form: spec.Into(func(c *Chunk) *int { return &c.Size }, spec.Whole[int](chunk.SizeMin, chunk.SizeMax).Default(defaultSize)),
		Example: "400", Help: "tokens of a chunk at most"},
	{Name: "overlap", Affects: spec.Outputs, Form: spec.Into(func(c *Chunk) *int { return &c.Overlap }, spec.Whole[int](0, chunk.SizeMax/2)),
		Example: "40", Absent: "0", Help: "how many tokens at the end of a chunk the next chunk repeats, in whole words or sentences; at most half of `size`"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(c *Chunk) *int { return &c.Max }, spec.Whole[int](1, chunk.ChunksMax).Default(defaultElements)),
		Example: "1000", Help: "chunks of a document; one with more is a dead letter"},
	{Name: "tokenizer", Affects: spec.Outputs, Form: spec.Into(func(c *Chunk) *string { return &c.Tokenizer }, lang.ReadPinnedFile),
		Example: "models/tokenizer.json", Absent: "a token is a word", Help: "a file `tokenizer.json` or `vocab.txt` of the WordPiece vocabularies of BERT. Tokens are its pieces of words"},
}

// Declare implements Step.
func (c *Chunk) Declare(d *lang.Declared) { d.AddColumns(c.Name) }

// Effect implements Step.
func (*Chunk) Effect() lang.Effects { return lang.Effects{} }

// Keeps implements Keeper.
func (c *Chunk) Keeps(*lang.Meaning) []lang.Part { return []lang.Part{FunctionPart(c.state())} }

// boundChunk splits texts.
type boundChunk struct {
	*Chunk
	path  string
	chunk operator.Chunk // without its state; the tokenizer is set by Open
	waves bool
}

// Bind implements Step.
func (c *Chunk) Bind(s *lang.Scope, path string) {
	b := &boundChunk{Chunk: c, path: path}
	before := len(s.Errs)
	splitter := &chunk.Splitter{By: c.By, Size: cmp.Or(c.Size, defaultSize), Overlap: c.Overlap, Max: cmp.Or(c.Max, defaultElements)}
	if splitter.Size < chunk.SizeMin || splitter.Size > chunk.SizeMax {
		s.Fail(path+".size", "%d is out of range: use %d to %d tokens", c.Size, chunk.SizeMin, chunk.SizeMax)
	}
	if splitter.Max < 0 || splitter.Max > chunk.ChunksMax {
		s.Fail(path+".max", "%d is out of range: use 1 to %d chunks", c.Max, chunk.ChunksMax)
	}
	if splitter.Overlap < 0 || splitter.Overlap > splitter.Size/2 {
		s.Fail(path+".overlap", "%d tokens of a chunk of %d: use at most half of size, %d", c.Overlap, splitter.Size, splitter.Size/2)
	}
	b.chunk = operator.Chunk{Name: c.Name, Splitter: splitter, Text: s.Expr(path+".text", c.Text)}
	if text := b.chunk.Text; text != nil {
		b.waves = s.Fed(text)
		switch t := text.Type(); {
		case t.Kind != value.String:
			s.Fail(path+".text", "the expression is of type %v, but string is needed", t)
		case t.Optional:
			s.Fail(path+".text", "it may be absent")
			s.Hint(fmt.Sprintf(`write a default: %s ?? "" removes all chunks of the document`, c.Text))
		}
	}
	s.AboveGroup(path)
	ok := s.Identifier(path+".name", c.Name)
	if ok {
		b.chunk.Chunks, ok = s.Make(path+".name", c.Name+".chunks", value.Type{Kind: value.List | value.Raw})
	}
	if ok {
		b.chunk.Removed, ok = s.Make(path+".name", c.Name+".removed", value.Type{Kind: value.List | value.String})
	}
	if len(s.Errs) == before && ok {
		s.Add(c, path, b)
	}
}

// Open implements Opener: it reads the tokenizer.
func (b *boundChunk) Open(r *lang.Resources) lang.Bound {
	if b.Tokenizer == "" {
		return b
	}
	tokenizer, err := wordpiece.Load(b.Tokenizer, wordpiece.Options{})
	if err != nil {
		r.Fail(b.path+".tokenizer", "%v", err)
		if errors.Is(err, fs.ErrNotExist) {
			r.Hint("name a file that is there; its path is relative to the pipeline file")
		}
		return nil
	}
	r.Pinned[b.path+".tokenizer"] = tokenizer.Digest()
	opened, splitter := *b, *b.chunk.Splitter
	splitter.Tokenizer = tokenizer
	opened.chunk.Splitter = &splitter
	return &opened
}

// Place implements Bound.
func (b *boundChunk) Place() lang.Place {
	return lang.Place{Waves: b.waves, Adds: true, Keeps: []lang.Kept{{Path: b.path, What: "the chunks of documents", Timers: true}}}
}

// Lower implements Bound.
func (b *boundChunk) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	op := b.chunk
	op.State = p.State(b.state())
	return &op
}

// state is the name of the state. It cannot be the name of a function.
func (c *Chunk) state() string { return "chunk " + c.Name }
