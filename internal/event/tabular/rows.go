// Package tabular writes feature rows for training as CSV, NDJSON and Parquet, with every number at
// full precision. Memory does not grow with the number of rows.
//
//	type      CSV                          NDJSON        Parquet
//	bool      true, false                  the same      BOOLEAN
//	int       digits                       the same      INT64
//	number    shortest that reads back     the same      DOUBLE
//	string    in double quotes             a string      BYTE_ARRAY, UTF8
//	bytes     base64 in double quotes      a string      BYTE_ARRAY
//	time      RFC 3339, UTC, us            a string      INT64, TIMESTAMP(us, UTC)
//	number[n] a list in double quotes      a list        LIST of FLOAT
//	int[]     a list in double quotes      a list        LIST, as are those of other kinds
//	map of int  an object in double quotes  an object    MAP, as are those of other kinds
//	raw       JSON in double quotes        the same      BYTE_ARRAY, UTF8
//	absent    an empty cell                null          null, in optional columns
//
// Numbers in CSV and NDJSON have the same digits as in a pipeline's outputs. A model may return a
// number that is not finite. It becomes NaN, +Inf or -Inf in CSV, and null in NDJSON and in lists,
// because JSON has no word for it.
package tabular

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Format is the file format of rows.
type Format string

// The formats.
const (
	CSV     Format = "csv"
	NDJSON  Format = "ndjson"
	Parquet Format = "parquet"
)

// FormatOf returns the format for the extension of a file name: .csv, .ndjson, .jsonl or .parquet.
func FormatOf(path string) (Format, error) {
	for ending, format := range map[string]Format{".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON, ".parquet": Parquet} {
		if strings.HasSuffix(path, ending) {
			return format, nil
		}
	}
	return "", fmt.Errorf("%q has no known format: end it with .parquet, .csv or .ndjson", path)
}

// Writer writes rows with the same columns.
type Writer interface {
	// Write writes a row. The caller may change the row afterwards. A column that is not optional
	// must have a value.
	Write(row *value.Row) error

	// Close writes buffered rows. It does not close the underlying writer.
	Close() error
}

// New returns a writer of the columns, in their order, to w. A column is the slot that its values
// are read from.
func New(w io.Writer, format Format, columns []value.Slot) (Writer, error) {
	if err := named(columns); err != nil {
		return nil, err
	}
	switch {
	case format == CSV:
		return newText(w, columns, csvForm)
	case format == NDJSON:
		return newText(w, columns, ndjsonForm)
	case format == Parquet:
		return NewParquet(w, Snappy, columns)
	}
	return nil, fmt.Errorf("unknown format %q: use csv, ndjson or parquet", format)
}

// named returns an error if two columns have the same name, or if there are no columns.
func named(columns []value.Slot) error {
	names := map[string]bool{}
	for _, c := range columns {
		if names[c.Name] {
			return fmt.Errorf("column %q is named twice", c.Name)
		}
		names[c.Name] = true
	}
	if len(columns) == 0 {
		return fmt.Errorf("rows without columns")
	}
	return nil
}

// check returns an error if a column that is not optional has no value.
func check(columns []value.Slot, row *value.Row, number int64) error {
	for i := range columns {
		if !columns[i].Type.Optional && !row.Has(columns[i]) {
			return fmt.Errorf("row %d has no value in column %s, which is not optional", number, columns[i].Name)
		}
	}
	return nil
}

// text writes one row on each line.
type text struct {
	out     *bufio.Writer
	columns []value.Slot
	form    func(dst []byte, row *value.Row, columns []value.Slot) []byte
	line    []byte
	number  int64 // number of the row, from 1
}

func newText(w io.Writer, columns []value.Slot, form func([]byte, []value.Slot) (start []byte, row func([]byte, *value.Row, []value.Slot) []byte)) (*text, error) {
	t := &text{out: bufio.NewWriterSize(w, 64<<10), columns: slices.Clone(columns)}
	t.line, t.form = form(nil, columns)
	_, err := t.out.Write(t.line)
	return t, err
}

// Write implements Writer.
func (t *text) Write(row *value.Row) error {
	t.number++
	if err := check(t.columns, row, t.number); err != nil {
		return err
	}
	t.line = append(t.form(t.line[:0], row, t.columns), '\n')
	_, err := t.out.Write(t.line)
	return err
}

// Close implements Writer.
func (t *text) Close() error { return t.out.Flush() }

// csvForm is CSV as in RFC 4180, but with line ends without CR. A string is always in quotes, so
// that "7" differs from 7, and "" from absent.
func csvForm(dst []byte, columns []value.Slot) ([]byte, func([]byte, *value.Row, []value.Slot) []byte) {
	for i, c := range columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		if strings.ContainsAny(c.Name, "\",\r\n") {
			dst = appendQuoted(dst, c.Name)
		} else {
			dst = append(dst, c.Name...)
		}
	}
	return append(dst, '\n'), appendCSV
}

func appendCSV(dst []byte, row *value.Row, columns []value.Slot) []byte {
	for i, c := range columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch {
		case !row.Has(c):
		case c.Type.Kind == value.String:
			dst = appendQuoted(dst, row.Text(c))
		case c.Type.Kind == value.Time:
			at := len(dst)
			dst = expression.AppendValue(dst, row, &c)
			dst = append(dst[:at], dst[at+1:len(dst)-1]...)
		case c.Type.Kind == value.Vector:
			dst = append(dst, '"')
			dst = append(appendJSON(dst, row, &c), '"')
		case c.Type.Kind == value.Raw || c.Type.Kind.IsList() || c.Type.Kind.IsMap():
			dst = appendQuoted(dst, string(expression.AppendValue(nil, row, &c)))
		default:
			dst = expression.AppendValue(dst, row, &c)
		}
	}
	return dst
}

func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}

// notFinite replaces the words for numbers that JSON cannot represent.
var notFinite = strings.NewReplacer("NaN", "null", "+Inf", "null", "-Inf", "null")

// appendJSON appends a value as JSON.
func appendJSON(dst []byte, row *value.Row, c *value.Slot) []byte {
	at := len(dst)
	dst = expression.AppendValue(dst, row, c)
	if kind := c.Type.Kind; (kind == value.Number || kind == value.Vector) && bytes.ContainsAny(dst[at:], "NI") {
		dst = append(dst[:at], notFinite.Replace(string(dst[at:]))...)
	}
	return dst
}

// ndjsonForm is one JSON object on each line.
func ndjsonForm(_ []byte, columns []value.Slot) ([]byte, func([]byte, *value.Row, []value.Slot) []byte) {
	var name value.Schema
	slot, err := name.Add("name", value.Type{Kind: value.String})
	if err != nil {
		panic(err) // a single name cannot be a duplicate
	}
	row := name.NewRows(1)[0]
	keys := make([][]byte, len(columns))
	for i, c := range columns {
		row.SetText(slot, c.Name)
		keys[i] = append(expression.AppendValue(nil, &row, &slot), ':')
	}
	return nil, func(dst []byte, row *value.Row, columns []value.Slot) []byte {
		for i, c := range columns {
			dst = append(dst, "{,"[min(i, 1)])
			dst = appendJSON(append(dst, keys[i]...), row, &c)
		}
		return append(dst, '}')
	}
}
