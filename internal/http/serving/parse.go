package serving

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/model"
)

const idBytesMax = 1024

func tooLarge(most int) string { return "larger than " + sizeText(most) }

func sizeText(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// mark is the result of parsing a record: a row, or a fault.
type mark struct {
	line  int64
	id    []byte // JSON; nil if the record has no id
	fault string
	code  string
}

// chunk is a group of a stream's records that are answered together.
type chunk struct {
	batch.Gather
	model *served
	marks []mark
	ids   []byte // JSON ids from CSV
}

func newChunk(m *served) *chunk {
	c := &chunk{model: m}
	c.reset()
	return c
}

func (c *chunk) reset() {
	c.Begin(c.model.numbers, c.model.texts)
	c.marks, c.ids = c.marks[:0], c.ids[:0]
}

// parser converts the records of a body to rows of a chunk.
type parser interface {
	// parse reads a record into the last row of the chunk, which has space for it with all values
	// missing. It returns the record's id as JSON, and the fault if the record is not a valid row.
	// If torn is true, the record may be several records, joined by a misplaced quote.
	parse(text []byte, c *chunk, values []float64, texts [][]byte) (id []byte, fault string, torn bool)
}

var missing = math.NaN()

// add parses a record and reports whether it is a valid row. If it is not, torn reports whether the
// lines after its first may be records of their own.
func (c *chunk) add(p parser, r record) (ok, torn bool) {
	m := mark{line: r.line, fault: r.fault, code: "bad_record"}
	torn = true
	rows := &c.Rows
	if r.fault == "" {
		from, fromTexts := len(rows.Values), len(rows.Bytes)
		for range rows.Width {
			rows.Values = append(rows.Values, missing)
		}
		for range rows.BytesWidth {
			rows.Bytes = append(rows.Bytes, nil)
		}
		values, texts := rows.Values[from:], rows.Bytes[fromTexts:]
		if m.id, m.fault, torn = p.parse(r.text, c, values, texts); m.fault == "" {
			if err := c.model.Model.Check(values, texts); err != nil {
				m.fault = err.Error()
			}
		}
		if m.fault != "" {
			rows.Values, rows.Bytes = rows.Values[:from], rows.Bytes[:fromTexts]
		}
	}
	if m.fault == "" {
		rows.N++
	}
	c.marks = append(c.marks, m)
	return m.fault == "", torn
}

// predict scores the rows. If the model fails for one row, only that row gets the fault. If the
// model itself fails, every row gets it.
func (c *chunk) predict(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.Run(ctx, c.model.shared, c.model.width, c.Rows.N, false)
	if err == nil && len(c.Failed) == 0 {
		return
	}
	faults := make(map[int]error, len(c.Failed))
	for _, f := range c.Failed {
		faults[f.Row] = f.Err
	}
	row := 0
	for i := range c.marks {
		m := &c.marks[i]
		if m.fault != "" {
			continue
		}
		why := err
		if why == nil {
			why = faults[row]
		}
		if why != nil {
			m.fault, m.code = why.Error(), "model_failed"
		}
		row++
	}
}

// objects parses JSON records: objects with the names of inputs, or arrays in their order.
type objects struct {
	seen  []uint64 // for each input, the number of the last record that had it
	stamp uint64
}

func newObjects(m *served) *objects { return &objects{seen: make([]uint64, len(m.inputs))} }

func (o *objects) parse(text []byte, c *chunk, values []float64, texts [][]byte) (id []byte, fault string, torn bool) {
	id, fault = o.read(text, c, values, texts)
	return id, fault, false
}

func (o *objects) read(text []byte, c *chunk, values []float64, texts [][]byte) (id []byte, fault string) {
	m := c.model
	o.stamp++
	found, next := 0, 0
	w := decode.Walk(text)
	for w.Next() {
		n := next
		switch {
		case w.Array() && next == len(m.inputs):
			return id, fmt.Sprintf("more than %d elements: the model has %d inputs", next, next)
		case w.Array() || next < len(m.inputs) && string(w.Name) == m.inputs[next].name:
		default:
			at, ok := m.byName[string(w.Name)]
			if !ok {
				if m.idName(string(w.Name)) {
					var bad string
					if id, bad = idOf(w.Value); bad != "" {
						return nil, bad
					}
				}
				continue
			}
			n = at
		}
		if o.seen[n] == o.stamp {
			return id, m.inputs[n].name + ": occurs in the record twice"
		}
		o.seen[n] = o.stamp
		found++
		next = n + 1
		if fault == "" { // after a fault, parsing continues to find the id
			if fault = m.setJSON(n, w.Value, values, texts); fault != "" {
				fault = m.inputs[n].name + ": " + fault
			}
		}
	}
	if err := w.Err(); err != nil {
		return nil, err.Error()
	}
	if fault == "" && found < len(m.inputs) {
		fault = o.absent(m)
	}
	return id, fault
}

func (o *objects) absent(m *served) string {
	n := slices.IndexFunc(o.seen, func(stamp uint64) bool { return stamp != o.stamp })
	return m.inputs[n].name + ": absent: send null if the value is missing"
}

// idOf returns an id in the form that the answer repeats.
func idOf(value []byte) (id []byte, fault string) {
	switch {
	case len(value) > idBytesMax:
		return nil, "id: longer than " + sizeText(idBytesMax)
	case value[0] == '{' || value[0] == '[':
		return nil, "id: not a string or number"
	case string(value) == "null":
		return nil, ""
	}
	return value, ""
}

// setJSON sets input n to a JSON value. It returns a fault if the value is invalid.
func (m *served) setJSON(n int, value []byte, values []float64, texts [][]byte) string {
	column := m.inputs[n].column
	null := value[0] == 'n'
	if m.inputs[n].kind == model.Number {
		if v, ok := decode.Number(value); ok {
			return m.setNumber(n, v, values)
		}
		if null {
			return ""
		}
		if text, ok := decode.String(value); ok && m.inputs[n].codes != nil {
			return m.setCategory(n, text, values)
		}
		return "not a number"
	}
	text, ok := decode.String(value)
	if !ok && !null {
		return "not a string"
	}
	if ok && m.inputs[n].kind == model.Bytes {
		if text, ok = fromBase64(text); !ok {
			return "not base64"
		}
	}
	texts[column] = text
	return ""
}

// setNumber sets input n to a number, which may be a category.
func (m *served) setNumber(n int, number float64, values []float64) string {
	v, err := m.inputs[n].codes.Number(number)
	if err != nil {
		return err.Error()
	}
	values[m.inputs[n].column] = v
	return ""
}

func (m *served) setCategory(n int, text []byte, values []float64) string {
	code, ok := m.inputs[n].codes.Text(string(text))
	if !ok {
		return fmt.Sprintf("%q is not one of its categories", clip(text))
	}
	values[m.inputs[n].column] = code
	return ""
}

func fromBase64(text []byte) ([]byte, bool) {
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(decoded, text)
	return decoded[:n], err == nil
}

func clip(text []byte) []byte {
	if len(text) > 40 {
		return append(slices.Clone(text[:37]), "..."...)
	}
	return text
}

// cells parses CSV rows.
type cells struct {
	columns []int // input of each cell, or idColumn
	cells   []cell
}

const idColumn = -1

type cell struct {
	text   []byte
	quoted bool
}

// header maps columns to inputs, by the names in a header or, without a header, by order. All
// inputs of the model are required. The only other allowed column is an id.
func (c *cells) header(m *served, text []byte) error {
	if fault := c.split(text); fault != "" {
		return fmt.Errorf("the header is not CSV: %s", fault)
	}
	seen := make([]bool, len(m.inputs))
	for _, cell := range c.cells {
		name := string(bytes.TrimSpace(cell.text))
		n, ok := m.byName[name]
		switch {
		case !ok && m.idName(name):
			n = idColumn
		case !ok:
			return fmt.Errorf("the model has no input %q: it has %s; send text/csv; header=absent if there is no header", clip(cell.text), m.inputNames())
		case seen[n]:
			return fmt.Errorf("column %q occurs in the header twice", name)
		default:
			seen[n] = true
		}
		c.columns = append(c.columns, n)
	}
	if n := slices.Index(seen, false); n >= 0 {
		return fmt.Errorf("the header lacks input %q of the model: it has %s", m.inputs[n].name, m.inputNames())
	}
	return nil
}

func (m *served) inputNames() string {
	const shown = 20
	names := make([]string, 0, shown)
	for _, in := range m.inputs[:min(shown, len(m.inputs))] {
		names = append(names, in.name)
	}
	text := strings.Join(names, ", ")
	if len(m.inputs) > shown {
		text += fmt.Sprintf(" and %d more", len(m.inputs)-shown)
	}
	return text
}

// ordered maps the columns to the inputs in order.
func (c *cells) ordered(m *served) {
	for n := range m.inputs {
		c.columns = append(c.columns, n)
	}
}

func (c *cells) parse(text []byte, chunk *chunk, values []float64, texts [][]byte) (id []byte, fault string, torn bool) {
	if fault := c.split(text); fault != "" {
		return nil, fault, true
	}
	if len(c.cells) != len(c.columns) {
		return nil, fmt.Sprintf("%d cells, want %d", len(c.cells), len(c.columns)), true
	}
	m := chunk.model
	for i, n := range c.columns {
		if n == idColumn {
			if len(c.cells[i].text) > idBytesMax {
				return nil, "id: longer than " + sizeText(idBytesMax), false
			}
			id = chunk.idOfCell(c.cells[i])
			continue
		}
		if fault == "" { // after a fault, parsing continues to find the id
			if fault = m.setCell(n, c.cells[i], values, texts); fault != "" {
				fault = m.inputs[n].name + ": " + fault
			}
		}
	}
	return id, fault, false
}

// idOfCell returns an id as JSON: a number stays a number, everything else becomes a string.
func (c *chunk) idOfCell(id cell) []byte {
	if len(id.text) == 0 {
		return nil
	}
	if _, ok := decode.Number(id.text); ok && !id.quoted {
		return id.text
	}
	from := len(c.ids)
	c.ids = appendString(c.ids, id.text)
	return c.ids[from:len(c.ids):len(c.ids)]
}

// setCell sets input n to a cell. It returns a fault if the cell is invalid. An empty unquoted cell
// is a missing value.
func (m *served) setCell(n int, c cell, values []float64, texts [][]byte) string {
	column := m.inputs[n].column
	if m.inputs[n].kind == model.Number {
		if v, ok := decode.Number(c.text); ok {
			return m.setNumber(n, v, values)
		}
		return m.setWord(n, bytes.TrimSpace(c.text), values)
	}
	switch {
	case len(c.text) == 0 && !c.quoted:
		return ""
	case !utf8.Valid(c.text):
		return "not UTF-8"
	}
	text := c.text
	if m.inputs[n].kind == model.Bytes {
		var ok bool
		if text, ok = fromBase64(text); !ok {
			return "not base64"
		}
	}
	texts[column] = text
	return ""
}

// setWord reads a number that is not in JSON syntax, or a category.
func (m *served) setWord(n int, text []byte, values []float64) string {
	if len(text) == 0 {
		return ""
	}
	if codes := m.inputs[n].codes; codes != nil {
		if _, ok := codes.Text(string(text)); ok {
			return m.setCategory(n, text, values)
		}
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Sprintf("%q is not a number: leave the cell empty if the value is missing", clip(text))
	}
	return m.setNumber(n, v, values)
}

// split splits a row into cells. It returns a fault if the row is not valid CSV.
func (c *cells) split(text []byte) string {
	c.cells = c.cells[:0]
	for {
		if len(text) > 0 && text[0] == '"' {
			inner, rest, ok := quotedCell(text[1:])
			if !ok {
				return "a quote is not closed, or something follows it"
			}
			c.cells = append(c.cells, cell{inner, true})
			if len(rest) == 0 {
				return ""
			}
			text = rest[1:]
			continue
		}
		end := bytes.IndexByte(text, ',')
		one := text
		if end >= 0 {
			one = text[:end]
		}
		if bytes.IndexByte(one, '"') >= 0 {
			return `a quote within a cell: write "" for it, in a cell in quotes`
		}
		c.cells = append(c.cells, cell{one, false})
		if end < 0 {
			return ""
		}
		text = text[end+1:]
	}
}

// quotedCell reads a cell after its opening quote; rest starts with a comma or is empty.
func quotedCell(text []byte) (inner, rest []byte, ok bool) {
	doubled := false
	for at := 0; ; at += 2 {
		end := bytes.IndexByte(text[at:], '"')
		if end < 0 {
			return nil, nil, false
		}
		at += end
		if at+1 < len(text) && text[at+1] == '"' {
			doubled = true
			continue
		}
		inner, rest = text[:at], text[at+1:]
		if doubled {
			inner = bytes.ReplaceAll(inner, []byte(`""`), []byte(`"`))
		}
		return inner, rest, len(rest) == 0 || rest[0] == ','
	}
}
