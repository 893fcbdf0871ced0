// Package csv reads the fields that a pipeline names from lines of CSV. Each line is one event.
package csv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Format is a dialect of CSV.
type Format struct {
	delimiter byte
	quote     byte
	quotes    bool
	columns   []string // nil: the columns are the fields, in their order
}

// New returns a dialect. "" means a comma as delimiter and a double quote as quote; quote may be
// "none". Without columns, the columns of a line are the fields in their order.
func New(delimiter, quote string, columns []string) (Format, error) {
	f := Format{delimiter: ',', quote: '"', quotes: true, columns: columns}
	for _, c := range []struct {
		name, text string
		into       *byte
	}{{"delimiter", delimiter, &f.delimiter}, {"quote", quote, &f.quote}} {
		switch {
		case c.text == "":
		case c.text == "none" && c.name == "quote":
			f.quotes = false
		case len(c.text) > 1 || c.text[0] >= 0x80 || c.text == "\n" || c.text == "\r":
			return f, fmt.Errorf("%s: %q is not one character of ASCII", c.name, c.text)
		default:
			*c.into = c.text[0]
		}
	}
	if f.quotes && f.quote == f.delimiter {
		return f, errors.New("delimiter and quote are the same character")
	}
	for i, name := range columns {
		if slices.Contains(columns[:i], name) {
			return f, fmt.Errorf("column %q occurs twice", name)
		}
	}
	return f, nil
}

// Decoder implements decode.Format.
func (f Format) Decoder(fields []decode.Field) (decode.Decoder, error) {
	d := &decoder{Format: f, columns: make([]*decode.Field, max(len(f.columns), len(fields)))}
	if f.columns != nil {
		d.columns = d.columns[:len(f.columns)]
	}
	for i := range fields {
		field := &fields[i]
		if kind := field.Slot.Type.Kind; !decode.Texts(kind) {
			return nil, fmt.Errorf("field %q: a column of CSV cannot be of type %s", field.Name, kind)
		}
		at := i
		if f.columns != nil {
			path, flat := field.Members()
			if at = slices.Index(f.columns, path[0]); at < 0 || !flat || len(path) > 1 {
				return nil, fmt.Errorf("field %q: there is no column %q", field.Name, field.At())
			}
		} else if field.Path != nil {
			return nil, fmt.Errorf("field %q has a path: name the columns", field.Name)
		}
		d.columns[at] = field
	}
	return d, nil
}

type decoder struct {
	Format
	columns []*decode.Field // nil if no field takes the column
}

// Scan implements decode.Decoder. It reads a line as encoding/csv does. The line must have a value
// for each column. An empty, unquoted value is absent, except for a required string.
func (d *decoder) Scan(src []byte, row *value.Row) error {
	line := bytes.TrimSuffix(bytes.TrimSuffix(src, []byte{'\n'}), []byte{'\r'})
	i := 0
	for n, field := range d.columns {
		if n > 0 {
			if i == len(line) {
				return &decode.Error{Offset: i, Reason: fmt.Sprintf("%d columns: want %d", n, len(d.columns))}
			}
			i++ // the delimiter
		}
		start := i
		text, quoted, doubled, end, reason := d.next(line, i)
		if i = end; reason != "" {
			return d.wrong(field, n, i, reason)
		}
		if field == nil {
			continue
		}
		if doubled {
			text = d.unquote(text)
		}
		if len(text) == 0 && !quoted && (field.Slot.Type.Optional || field.Slot.Type.Kind != value.String) {
			reason = field.Absent(row)
		} else {
			reason = field.SetText(text, row)
		}
		if reason != "" {
			return d.wrong(field, n, start, reason)
		}
	}
	if i < len(line) {
		return &decode.Error{Offset: i, Reason: fmt.Sprintf("more columns than %d", len(d.columns))}
	}
	return nil
}

func (d *decoder) wrong(field *decode.Field, n, at int, reason string) error {
	err := &decode.Error{Offset: at, Reason: fmt.Sprintf("column %d: %s", n+1, reason)}
	if field != nil {
		err.Field = field.Name
	}
	return err
}

// next reads the value at line[i:]. doubled reports whether it contains doubled quotes.
func (d *decoder) next(line []byte, i int) (text []byte, quoted, doubled bool, end int, reason string) {
	if d.quotes && i < len(line) && line[i] == d.quote {
		text, doubled, end, reason = d.inQuotes(line, i+1)
		return text, true, doubled, end, reason
	}
	end = len(line)
	if n := bytes.IndexByte(line[i:], d.delimiter); n >= 0 {
		end = i + n
	}
	text = line[i:end:end]
	if d.quotes {
		if n := bytes.IndexByte(text, d.quote); n >= 0 {
			return nil, false, false, i + n, "a quote in a value that does not begin with one"
		}
	}
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		return nil, false, false, i + n, "a second line: a record is one line"
	}
	return text, false, false, end, ""
}

// inQuotes reads a value from after its first quote.
func (d *decoder) inQuotes(line []byte, i int) (text []byte, doubled bool, end int, reason string) {
	for start := i; ; i += 2 {
		n := bytes.IndexByte(line[i:], d.quote)
		if n < 0 {
			return nil, false, len(line), "a quote is open"
		}
		i += n
		switch after := i + 1; {
		case after < len(line) && line[after] == d.quote:
			doubled = true
		case after < len(line) && line[after] == '\n':
			return nil, false, after, "a second line: a record is one line"
		case after < len(line) && line[after] != d.delimiter:
			return nil, false, after, "text behind the closing quote"
		default:
			return line[start:i:i], doubled, after, ""
		}
	}
}

// unquote replaces doubled quotes in a value with single ones.
func (d *decoder) unquote(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte{d.quote, d.quote}, []byte{d.quote})
}
