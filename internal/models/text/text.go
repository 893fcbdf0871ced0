// Package text scores texts, numbers and categories with the linear models and small pipelines of
// scikit-learn, inside the process. It supports TF-IDF and other bags of words, scalers, one-hot
// encoders, logistic regression, support vector machines, naive Bayes, and calibrated classifiers.
// The script export.py in this folder writes its files. Scores equal those of scikit-learn to 1e-12
// for all Unicode characters, and depend on the row alone, bit for bit.
package text

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"unsafe"

	"github.com/afterbay/afterbay/model"
)

const (
	columnsMax       = 1 << 26
	textBlocksMax    = 64 // each block reads the whole text of a row
	textBytesDefault = 1 << 20
	textBytesMax     = 64 << 20
	keepMax          = 1 << 20 // size of each part of the working memory that is kept for later calls
)

// Kind is the kind of a model's input.
type Kind int

const (
	// Text is a text. The model counts n-grams of its words.
	Text Kind = iota
	// Number is a number; NaN is a missing one.
	Number
	// Category is one of a set of texts.
	Category
)

// String returns "text", "number" or "category", as in files.
func (k Kind) String() string { return [...]string{"text", "number", "category"}[k] }

// Input describes a column of a model's rows.
type Input struct {
	Name string
	Kind Kind
}

// Column holds the values of an input for a batch of rows: Numbers for a Number, Texts for the
// other kinds. Each byte of a text that is not UTF-8 counts as U+FFFD.
type Column struct {
	Numbers []float64
	Texts   []string
	Missing []bool // which of Texts are missing; nil means no text is missing
}

// Options say how to load a model. The zero value is a good choice.
type Options struct {
	// TextBytesMax is the longest accepted text in bytes: 0 means 1 MiB, the limit is 64 MiB.
	// Memory of a call grows with the longest text, by at most about 100 bytes for each byte of it.
	TextBytesMax int
}

// Model is a loaded model. It is safe for concurrent use. Scoring allocates memory only for a
// token_pattern that needs package regexp.
type Model struct {
	inputs    []Input
	uses      []use // by input
	blocks    []block
	steps     []step
	head      *head
	outputs   []string
	numbers   int // number of inputs that are numbers
	info      model.Info
	limit     int
	scratches sync.Pool // of *scratch
}

// block is one part of a model.
type block struct {
	text     *vectorizer
	numbers  *numbers
	category *category
}

// use says what a model requires of an input.
type use struct {
	present    bool        // numbers must not be missing
	categories []*category // categories that may refuse a value
}

// scratch is the working memory of a call.
type scratch struct {
	buffer, other []byte
	starts        []int32
	kinds         []uint8
	spans         []span
	entries       []entry
	slots         []uint32 // by column: 1 + the index of its entry
	sums          []float64
	one           [1]Column
	text          [1]string
	row           oneRow
}

// Parse reads the content of a file. The name is for error messages only. A hostile file can cause
// nothing worse than an error.
func Parse(name string, data []byte) (*Model, error) { return ParseWith(name, data, Options{}) }

// ParseWith is Parse with options.
func ParseWith(name string, data []byte, options Options) (*Model, error) {
	m, err := parse(data, options)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return m, nil
}

func parse(data []byte, options Options) (*Model, error) {
	m := &Model{limit: options.TextBytesMax}
	if m.limit == 0 {
		m.limit = textBytesDefault
	}
	if m.limit < 0 || m.limit > textBytesMax {
		return nil, fmt.Errorf("TextBytesMax is %d, from 1 to %d: positions in a text have 32 bits", m.limit, textBytesMax)
	}
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	if err := m.takeInputs(f); err != nil {
		return nil, err
	}
	columns, err := m.takeBlocks(f)
	if err != nil {
		return nil, err
	}
	if m.steps, err = parseSteps(f.Steps, columns, true); err != nil {
		return nil, err
	}
	if m.head, err = newHead(f, columns); err != nil {
		return nil, err
	}
	for i, b := range m.blocks {
		if b.text == nil {
			continue
		}
		for c, idf := range f.Blocks[i].Text.Idf {
			m.head.weights[(b.text.first+c)*m.head.stride] = idf
		}
	}
	m.outputs = f.Outputs
	m.describe(f, data, columns)
	m.scratches.New = func() any {
		return &scratch{slots: make([]uint32, 64), sums: make([]float64, m.head.decisions)}
	}
	return m, nil
}

func (m *Model) takeInputs(f *file) error {
	kinds := map[string]Kind{"text": Text, "number": Number, "category": Category}
	seen := map[string]bool{}
	for i, in := range f.Inputs {
		kind, ok := kinds[in.Kind]
		if !ok {
			return fmt.Errorf("inputs: kind %q of input %d is not one of text, number, category", clip(in.Kind), i)
		}
		if seen[in.Name] {
			return fmt.Errorf("inputs: %q occurs twice", clip(in.Name))
		}
		seen[in.Name] = true
		m.inputs = append(m.inputs, Input{in.Name, kind})
	}
	m.uses, m.numbers = make([]use, len(m.inputs)), countNumbers(m.inputs)
	if len(m.inputs) == 0 {
		return errors.New("inputs are missing")
	}
	return nil
}

// takeBlocks builds the blocks and returns their number of columns.
func (m *Model) takeBlocks(f *file) (int, error) {
	var t *tables
	if f.Characters != nil {
		var err error
		if t, err = newTables(f.Characters); err != nil {
			return 0, err
		}
	}
	columns, texts := 0, 0
	for i := range f.Blocks {
		if f.Blocks[i].Text != nil {
			texts++
		}
		if texts > textBlocksMax {
			return 0, fmt.Errorf("block %d: more than %d blocks of text: make one model of several", i, textBlocksMax)
		}
		width, err := m.takeBlock(&f.Blocks[i], t, columns)
		if err != nil {
			return 0, fmt.Errorf("block %d: %w", i, err)
		}
		if columns += width; columns > columnsMax {
			return 0, fmt.Errorf("more than %d columns", columnsMax)
		}
	}
	return columns, nil
}

func (m *Model) takeBlock(f *fileBlock, t *tables, first int) (int, error) {
	kind := func(input int, want ...Kind) error {
		if input < 0 || input >= len(m.inputs) {
			return fmt.Errorf("input %d of %d", input, len(m.inputs))
		}
		for _, k := range want {
			if m.inputs[input].Kind == k {
				return nil
			}
		}
		return fmt.Errorf("input %q is a %s", clip(m.inputs[input].Name), m.inputs[input].Kind)
	}
	switch {
	case f.Text != nil && f.Numbers == nil && f.Category == nil:
		if err := kind(f.Text.Input, Text); err != nil {
			return 0, err
		}
		if t == nil {
			return 0, errors.New("characters are missing")
		}
		v, err := f.Text.vectorizer(t, first)
		if err != nil {
			return 0, err
		}
		m.blocks = append(m.blocks, block{text: v})
		return v.columns, nil
	case f.Numbers != nil && f.Text == nil && f.Category == nil:
		n, err := f.Numbers.numbers(first)
		if err != nil {
			return 0, err
		}
		for _, input := range n.inputs {
			if err := kind(input, Number); err != nil {
				return 0, err
			}
			m.uses[input].present = m.uses[input].present || !n.fills
		}
		m.blocks = append(m.blocks, block{numbers: n})
		return len(n.inputs), nil
	case f.Category != nil && f.Text == nil && f.Numbers == nil:
		if err := kind(f.Category.Input, Number, Category, Text); err != nil {
			return 0, err
		}
		c, err := f.Category.category(m.inputs[f.Category.Input].Kind, first)
		if err != nil {
			return 0, err
		}
		m.uses[c.input].categories = append(m.uses[c.input].categories, c)
		m.blocks = append(m.blocks, block{category: c})
		return c.width, nil
	}
	return 0, errors.New("not one of text, numbers, category")
}

// describe builds the Info.
func (m *Model) describe(f *file, data []byte, columns int) {
	digest := sha256.Sum256(data)
	m.info = model.Info{
		Kind: "text", Digest: hex.EncodeToString(digest[:]),
		Inputs: m.describeInputs(), Outputs: m.describeOutputs(),
	}
	var parts []string
	for _, b := range m.blocks {
		switch {
		case b.text != nil && b.text.vocabulary == nil:
			parts = append(parts, fmt.Sprintf("%d columns of hashed terms", b.text.columns))
		case b.text != nil:
			parts = append(parts, fmt.Sprintf("%d terms", b.text.columns))
		case b.numbers != nil:
			parts = append(parts, fmt.Sprintf("%d numbers", len(b.numbers.inputs)))
		default:
			parts = append(parts, fmt.Sprintf("%d categories", b.category.width))
		}
	}
	m.info.Describe = fmt.Sprintf("linear, %d members, %d columns: %s; %s",
		len(f.Members), columns, strings.Join(parts, ", "), clip(f.Source))
}

// Info describes the model. Its slices are shared: do not change them.
func (m *Model) Info() model.Info { return m.info }

// Inputs returns the columns of a row. It is shared: do not change it.
func (m *Model) Inputs() []Input { return m.inputs }

// Outputs returns the names of the scores of a row: the classes, or only the second class if there
// are two. The slice is shared: do not change it.
func (m *Model) Outputs() []string { return m.outputs }

// CheckRow returns nil if a row of columns can be scored, else the reason. It refuses an input of
// another kind, a required value that is missing, an infinite number, and a text above the limit.
// It refuses an unknown category unless the model ignores unknown categories.
func (m *Model) CheckRow(columns []Column, row int) error {
	if len(columns) != len(m.inputs) {
		return fmt.Errorf("%d columns for a model of %d inputs", len(columns), len(m.inputs))
	}
	for i := range columns {
		if err := m.check(&m.inputs[i], &m.uses[i], &columns[i], row); err != nil {
			return &model.InputError{Name: m.inputs[i].Name, Index: i, Err: err}
		}
	}
	return nil
}

func (m *Model) check(in *Input, use *use, column *Column, row int) error {
	if in.Kind == Number {
		if row >= len(column.Numbers) {
			return fmt.Errorf("no number in row %d", row)
		}
		v := column.Numbers[row]
		if math.IsInf(v, 0) {
			return errors.New("is infinite")
		}
		if use.present && math.IsNaN(v) {
			return errors.New("is missing")
		}
	} else {
		if row >= len(column.Texts) || column.Missing != nil && row >= len(column.Missing) || column.Numbers != nil {
			return fmt.Errorf("no %s in row %d", in.Kind, row)
		}
		if length := len(column.Texts[row]); length > m.limit {
			return fmt.Errorf("%d bytes, the limit is %d", length, m.limit)
		}
		if in.Kind == Text && column.Missing != nil && column.Missing[row] {
			return errors.New("is missing")
		}
	}
	for _, c := range use.categories {
		if c.column(column, row) == refused {
			return errors.New("is a category that the model does not know")
		}
	}
	return nil
}

var errTexts = errors.New("the model takes other inputs than one text: ScoreRows")

// Score writes len(Outputs()) scores for each text, for a model with a text as its only input. If
// CheckRow refuses a text, Score fails before it writes any score. If the token_pattern takes too
// many steps on a text, it fails after it wrote the scores of the texts before.
func (m *Model) Score(texts []string, scores []float64) error {
	if len(m.inputs) != 1 || m.inputs[0].Kind != Text {
		return errTexts
	}
	s := m.scratches.Get().(*scratch)
	defer m.put(s)
	s.one[0] = Column{Texts: texts}
	return m.score(s, s.one[:], len(texts), scores)
}

// ScoreBytes does what Score does, for texts given as bytes. They must not change during the call.
func (m *Model) ScoreBytes(texts [][]byte, scores []float64) error {
	if len(m.inputs) != 1 || m.inputs[0].Kind != Text {
		return errTexts
	}
	if err := m.room(len(texts), scores); err != nil {
		return err
	}
	for i, text := range texts {
		if len(text) > m.limit {
			return fmt.Errorf("row %d: %d bytes, the limit is %d", i, len(text), m.limit)
		}
	}
	s := m.scratches.Get().(*scratch)
	defer m.put(s)
	width := len(m.outputs)
	for i, text := range texts {
		s.text[0] = unsafe.String(unsafe.SliceData(text), len(text))
		s.one[0] = Column{Texts: s.text[:]}
		if err := m.row(s, s.one[:], 0, scores[i*width:(i+1)*width]); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// ScoreRows writes len(Outputs()) scores for each row, from a column for each input. It fails as
// Score does.
func (m *Model) ScoreRows(columns []Column, rows int, scores []float64) error {
	s := m.scratches.Get().(*scratch)
	defer m.put(s)
	return m.score(s, columns, rows, scores)
}

func (m *Model) room(rows int, scores []float64) error {
	if len(scores) < rows*len(m.outputs) {
		return fmt.Errorf("room for %d scores of %d rows of %d", len(scores), rows, len(m.outputs))
	}
	return nil
}

func (m *Model) score(s *scratch, columns []Column, rows int, scores []float64) error {
	if err := m.room(rows, scores); err != nil {
		return err
	}
	for row := range rows {
		if err := m.CheckRow(columns, row); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
	width := len(m.outputs)
	for row := range rows {
		if err := m.row(s, columns, row, scores[row*width:(row+1)*width]); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
	return nil
}

// row scores a row that passed CheckRow. The error names the input if its text takes too many
// steps.
func (m *Model) row(s *scratch, columns []Column, row int, out []float64) error {
	s.reset()
	for i := range m.blocks {
		switch b := &m.blocks[i]; {
		case b.text != nil:
			if err := b.text.count(s, m.head.weights, m.head.stride, columns[b.text.input].Texts[row]); err != nil {
				return &model.InputError{Name: m.inputs[b.text.input].Name, Index: b.text.input, Err: err}
			}
		case b.numbers != nil:
			b.numbers.write(s, columns, row)
		default:
			if column := b.category.column(&columns[b.category.input], row); column >= 0 {
				s.tally(uint32(b.category.first+column), 1)
			}
		}
	}
	for _, step := range m.steps {
		step.apply(s.entries, 0)
	}
	m.head.score(s, out)
	return nil
}

// put returns working memory to the pool, unless a long text made it large. It keeps no data of the
// caller.
func (m *Model) put(s *scratch) {
	s.one[0], s.text[0] = Column{}, ""
	clear(s.row.texts)
	if cap(s.buffer)+cap(s.other) <= keepMax && len(s.slots) <= keepMax/8 && cap(s.starts) <= keepMax/4 {
		m.scratches.Put(s)
	}
}
