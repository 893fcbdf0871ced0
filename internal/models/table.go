package models

import (
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
)

// Table reads rows of a model from CSV with a header. Cells of numbers are float64; an empty one is
// a missing value. Texts are read verbatim, bytes as base64; neither is ever missing.
type Table struct {
	name    string
	parser  *csv.Reader
	header  []string
	columns []column
	cells   []string
}

// column is the position of a column of the model's rows.
type column struct {
	at    int
	input model.Input
	codes *category.Codes
}

// NewTable reads the header. If the model has names, it finds the columns of the inputs by name,
// otherwise by position. An input of several columns has its name with _0, _1 and so on. name is
// for error messages.
func NewTable(source io.Reader, name string, info model.Info) (*Table, error) {
	t := &Table{name: name, parser: csv.NewReader(source)}
	t.parser.ReuseRecord = true
	header, err := t.parser.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: empty: give CSV with a header that names the columns", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.header = slices.Clone(header)
	t.header[0] = strings.TrimPrefix(t.header[0], "\uFEFF")
	names := Columns(info)
	var missing []string
	for i, in := range info.Inputs {
		for range in.Size() {
			at := len(t.columns)
			if names != nil {
				if at = slices.Index(t.header, names[at]); at < 0 {
					missing = append(missing, names[len(t.columns)])
				}
			}
			t.columns = append(t.columns, column{at, info.Inputs[i], category.NewCodes(in.Categories)})
		}
	}
	switch {
	case names == nil && len(t.header) < len(t.columns):
		return nil, fmt.Errorf("%s:1: %d columns for a model of %d inputs: the model has no names, so give its inputs in order", name, len(t.header), len(t.columns))
	case missing != nil:
		return nil, fmt.Errorf("%s:1: the header lacks inputs of the model: %s; it has %s", name, strings.Join(missing, ", "), strings.Join(t.header, ", "))
	}
	return t, nil
}

// Columns returns the names of the columns of a model's rows, or nil if an input has no name.
func Columns(info model.Info) []string {
	var names []string
	for i, name := range info.Names() {
		names = append(names, Numbered(name, info.Inputs[i].Size())...)
	}
	return names
}

// Others returns the names of the columns that are not inputs.
func (t *Table) Others() []string {
	var others []string
	for i, name := range t.header {
		if !slices.ContainsFunc(t.columns, func(c column) bool { return c.at == i }) {
			others = append(others, name)
		}
	}
	return others
}

// RowError says why a row of the file cannot be scored. Reading can continue with the next row.
type RowError struct{ error }

// Unwrap returns the reason.
func (e *RowError) Unwrap() error { return e.error }

// Next appends the next row to rows. It returns io.EOF after the last row. After a *RowError it
// appends nothing, and the next call reads the row after it.
func (t *Table) Next(rows *model.Rows) error {
	cells, err := t.parser.Read()
	var wrong *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, csv.ErrFieldCount):
		line, column := t.parser.FieldPos(0)
		return &RowError{fmt.Errorf("%s:%d:%d: %s, but the header has %d", t.name, line, column, countOfCells(len(cells)), len(t.header))}
	case errors.As(err, &wrong):
		return &RowError{fmt.Errorf("%s:%d:%d: %w", t.name, wrong.Line, wrong.Column, wrong.Err)}
	case err != nil:
		return fmt.Errorf("%s: %w", t.name, err)
	}
	t.cells = cells
	values, texts := len(rows.Values), len(rows.Bytes)
	if err := t.append(rows); err != nil {
		rows.Values, rows.Bytes = rows.Values[:values], rows.Bytes[:texts]
		return &RowError{err}
	}
	rows.N++
	return nil
}

func (t *Table) append(rows *model.Rows) error {
	for _, c := range t.columns {
		cell := t.cells[c.at]
		switch c.input.Type {
		case model.Number:
			value, err := number(cell, c.codes, c.input.Categories)
			if err != nil {
				return t.wrong(c.at, err)
			}
			rows.Values = append(rows.Values, value)
		case model.Bytes:
			data, err := base64.StdEncoding.DecodeString(cell)
			if err != nil {
				return t.wrong(c.at, fmt.Errorf("write bytes as base64: %w", err))
			}
			rows.Bytes = append(rows.Bytes, data)
		default:
			rows.Bytes = append(rows.Bytes, []byte(cell))
		}
	}
	return nil
}

// Check returns an error with the place of the newest row, the last of rows, if the model refuses
// it. It also removes the row from rows then.
func (t *Table) Check(m model.Model, rows *model.Rows) error {
	values, texts := len(rows.Values)-rows.Width, len(rows.Bytes)-rows.BytesWidth
	err := m.Check(rows.Values[values:], rows.Bytes[texts:])
	if err == nil {
		return nil
	}
	rows.N, rows.Values, rows.Bytes = rows.N-1, rows.Values[:values], rows.Bytes[:texts]
	var refused *model.InputError
	if errors.As(err, &refused) {
		if at := t.columnOf(m.Info(), refused); at >= 0 {
			return &RowError{t.wrong(at, refused.Err)}
		}
	}
	return &RowError{fmt.Errorf("%s: %w", t.Where(), err)}
}

// columnOf returns the column of the file for an input, or -1 if the file lacks it.
func (t *Table) columnOf(info model.Info, refused *model.InputError) int {
	at, text := info.Column(refused)
	for _, c := range t.columns {
		switch {
		case text != (c.input.Type != model.Number):
		case at == 0:
			return c.at
		default:
			at--
		}
	}
	return -1
}

// Where returns the file and line of the newest row.
func (t *Table) Where() string {
	line, _ := t.parser.FieldPos(0)
	return fmt.Sprintf("%s:%d", t.name, line)
}

// Value returns the number of the newest row in the named column, and whether the column exists.
func (t *Table) Value(name string) (value float64, there bool, err error) {
	at := slices.Index(t.header, name)
	if at < 0 || t.cells[at] == "" {
		return 0, false, nil
	}
	value, err = strconv.ParseFloat(t.cells[at], 64)
	if err != nil {
		return 0, false, t.wrong(at, fmt.Errorf("%q is not a number", t.cells[at]))
	}
	return value, true, nil
}

func (t *Table) wrong(at int, err error) error {
	line, column := t.parser.FieldPos(at)
	return fmt.Errorf("%s:%d:%d: column %s: %w", t.name, line, column, t.header[at], err)
}

func countOfCells(n int) string {
	if n == 1 {
		return "1 cell"
	}
	return strconv.Itoa(n) + " cells"
}

// number reads a cell: a number or one of the categories.
func number(cell string, codes *category.Codes, categories []string) (float64, error) {
	if cell == "" {
		return math.NaN(), nil
	}
	if codes != nil {
		if code, known := codes.Text(cell); known {
			return code, nil
		}
	}
	value, err := strconv.ParseFloat(cell, 64)
	switch {
	case err == nil:
		return codes.Number(value)
	case codes != nil:
		return 0, fmt.Errorf("%q is neither a number nor one of the categories %s", cell, strings.Join(categories, ", "))
	}
	return 0, fmt.Errorf("%q is not a number: leave the cell empty if the value is missing", cell)
}

// Numbered names n columns. A single column has the name alone; several have it with _0, _1 and so
// on.
func Numbered(name string, n int) []string {
	if n == 1 {
		return []string{name}
	}
	var names []string
	for i := range n {
		names = append(names, name+"_"+strconv.Itoa(i))
	}
	return names
}

// ScoreColumns names the columns of a model's answer to a row: prediction and, for an exact model,
// margin or score. Several columns are numbered from 0.
func ScoreColumns(m model.Model) []string {
	exactness := exactnessOf(m)
	return append(Numbered(exactness.Name, exactness.Columns), Numbered("prediction", m.Info().Scores())...)
}

func exactnessOf(m model.Model) model.Exactness {
	if e, ok := m.(model.Exact); ok {
		return e.Exactness()
	}
	return model.Exactness{}
}
