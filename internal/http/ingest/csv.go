package ingest

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	columnsMax  = 10_000 // in a header
	columnBytes = 160    // memory of a column in addition to its name
	cellBytes   = 32
	stringBytes = 6 // maximum JSON size of one byte of a string
)

// csvReader converts CSV rows to JSON objects. The names are in a header. The separator is a comma,
// or the semicolon or tab of a header without commas:
//
//   - an empty cell is absent; a quoted empty cell is an empty string
//   - an unquoted cell that is a JSON number remains that number, digit by digit
//   - any other cell is a string
//
// If a row is not valid CSV or has another number of cells than the header, only its first line
// becomes a record, unchanged. That record becomes one dead letter, and the following rows are read
// normally.
type csvReader struct {
	source  *lineReader
	comma   byte     // separator of cells
	nulls   bool     // an empty cell is null
	names   [][]byte // `"name":`
	cells   []cell   // cells of the last parsed row
	scratch []byte   // cells with doubled quotes removed
	row     []byte   // lines of the current row, with line ends
	ends    []int    // end of each line in row; bytes after the last are read again
	began   int64    // first line of the last row
	whole   bool     // whether the last row was valid
}

func newCSVReader(source *lineReader) (*csvReader, error) {
	r := &csvReader{source: source, comma: ','}
	if err := r.readRow(); err == io.EOF {
		return nil, source.refuse(1, "the file is empty: a CSV file starts with a header that names its columns")
	} else if err != nil {
		return nil, err
	}
	r.comma = Separator(r.row)
	ok, err := r.parse(r.row, columnsMax+1)
	switch {
	case err != nil:
		return nil, err
	case len(r.cells) > columnsMax:
		return nil, source.refuse(1, fmt.Sprintf("the header has more than %d columns", columnsMax))
	case !ok:
		return nil, source.refuse(1, "the header is not CSV: is this the right --format?")
	}
	seen := map[string]bool{}
	for _, cell := range r.cells {
		name := string(cell.text)
		if err := source.room.Take(int64(2*len(name)) + columnBytes); err != nil {
			return nil, err
		}
		switch {
		case name == "":
			return nil, source.refuse(1, "a column of the header has no name")
		case seen[name]:
			return nil, source.refuse(1, "the header names column "+string(appendString(nil, name))+" twice")
		case !utf8.ValidString(name):
			return nil, source.refuse(1, "the header is not UTF-8")
		}
		seen[name] = true
		r.names = append(r.names, append(appendString(nil, name), ':'))
	}
	r.consume(len(r.ends))
	return r, nil
}

func (r *csvReader) lines() int64 { return r.source.line }

func (r *csvReader) last() (line int64, whole bool) { return r.began, r.whole }

func (r *csvReader) next(dst []byte) ([]byte, error) {
	if err := r.readRow(); err != nil {
		return dst, err
	}
	ok, err := r.parse(r.row[:r.ends[len(r.ends)-1]], len(r.names))
	if err != nil {
		return dst, err
	}
	r.began = r.source.line - int64(len(r.ends)) + 1
	if r.whole = ok && len(r.cells) == len(r.names); !r.whole {
		dst, err = r.source.room.Add(dst, bytes.TrimSuffix(r.row[:r.ends[0]], []byte("\n")))
		r.consume(1)
		return dst, err
	}
	at := len(dst)
	if dst, err = r.object(dst); err != nil {
		return dst[:at], err
	}
	if len(dst)-at > LineBytesMax {
		return dst[:at], r.source.tooLong(r.began)
	}
	r.consume(len(r.ends)) // not earlier, because cells alias the row
	return dst, nil
}

// object appends the cells as a JSON object. It stops when the object is too long for a record.
func (r *csvReader) object(dst []byte) ([]byte, error) {
	from := len(dst)
	dst = append(dst, '{')
	for i, cell := range r.cells {
		empty := len(cell.text) == 0 && !cell.quoted
		if empty && !r.nulls {
			continue
		}
		var err error
		if dst, err = r.source.room.Grow(dst, len(r.names[i])+stringBytes*len(cell.text)+len(`,null}`)); err != nil {
			return dst, err
		}
		if len(dst) > from+1 {
			dst = append(dst, ',')
		}
		dst = append(dst, r.names[i]...)
		switch {
		case empty:
			dst = append(dst, "null"...)
		case !cell.quoted && isNumber(cell.text):
			dst = append(dst, cell.text...)
		default:
			dst = appendString(dst, cell.text)
		}
		if len(dst)-from > LineBytesMax {
			return dst, nil
		}
	}
	return append(dst, '}'), nil
}

// Separator returns the separator of a header's cells: a comma if there is one outside quotes,
// otherwise a semicolon or tab.
func Separator(header []byte) byte {
	found, quoted := byte(','), false
	for _, c := range header {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			return c
		case (c == ';' || c == '\t') && found == ',':
			found = c
		}
	}
	return found
}

// consume drops the first lines of row. The rest is read again.
func (r *csvReader) consume(lines int) {
	end := r.ends[lines-1]
	r.row = r.row[:copy(r.row, r.row[end:])]
	r.ends = r.ends[:0]
}

// readRow fills row with the lines of the next row, until the number of quotes is even. Lines left
// from an invalid row come first. An odd quote starts at most one search for its partner, and the
// next odd quote ends it. So each line is scanned a bounded number of times.
func (r *csvReader) readRow() error {
	r.ends = r.ends[:0]
	quotes, from := 0, 0
	for {
		end := bytes.IndexByte(r.row[from:], '\n')
		if end < 0 {
			at := len(r.row)
			row, err := r.source.read(r.row)
			if err == io.EOF && len(r.ends) > 0 {
				return nil
			}
			if err != nil {
				return err
			}
			r.row = append(row, '\n')
			end = len(r.row) - 1 - at
		}
		line := r.row[from : from+end]
		if len(r.ends) == 0 && blank(line) {
			r.row = r.row[:copy(r.row, r.row[from+end+1:])]
			continue
		}
		quotes += bytes.Count(line, []byte{'"'})
		from += end + 1
		r.ends = append(r.ends, from)
		if quotes%2 == 0 || from > LineBytesMax {
			return nil
		}
	}
}

// cell is a cell of a row.
type cell struct {
	text   []byte // aliases row or scratch
	quoted bool
}

// parse splits a row into at most most cells. ok is false if the row is not valid CSV by the rules
// of encoding/csv, has more cells, or ends before the given lines do.
func (r *csvReader) parse(row []byte, most int) (ok bool, err error) {
	r.cells, r.scratch = r.cells[:0], r.scratch[:0]
	if len(row) > LineBytesMax+1 {
		return false, nil
	}
	for more := true; more; {
		if len(r.cells) == most {
			return false, nil
		}
		if err := r.source.room.Another(len(r.cells), cap(r.cells), cellBytes); err != nil {
			return false, err
		}
		var one cell
		if len(row) > 0 && row[0] == '"' {
			one.quoted = true
			one.text, row, more, ok, err = r.quotedCell(row[1:])
		} else {
			one.text, row, more, ok = r.plainCell(row)
		}
		if !ok || err != nil {
			return false, err
		}
		r.cells = append(r.cells, one)
	}
	return len(row) == 0, nil
}

// plainCell reads an unquoted cell. more reports whether another cell follows.
func (r *csvReader) plainCell(row []byte) (text, rest []byte, more, ok bool) {
	end := bytes.IndexByte(row, '\n')
	if comma := bytes.IndexByte(row[:end], r.comma); comma >= 0 {
		text, rest, more = row[:comma], row[comma+1:], true
	} else {
		text, rest = bytes.TrimSuffix(row[:end], []byte{'\r'}), row[end+1:]
	}
	return text, rest, more, bytes.IndexByte(text, '"') < 0
}

// quotedCell reads a quoted cell. row starts after the opening quote.
func (r *csvReader) quotedCell(row []byte) (text, rest []byte, more, ok bool, err error) {
	from := len(r.scratch)
	for {
		end := bytes.IndexByte(row, '"')
		if end < 0 {
			return nil, row, false, false, nil
		}
		part, next := row[:end], row[end+1:]
		if bytes.Contains(part, []byte("\r\n")) {
			part = bytes.ReplaceAll(part, []byte("\r\n"), []byte("\n"))
		}
		doubled := next[0] == '"' // a row ends with a newline, so next is not empty
		if !doubled && len(r.scratch) == from {
			text = part
		} else if r.scratch, err = r.source.room.Add(r.scratch, part); err != nil {
			return nil, row, false, false, err
		}
		switch {
		case doubled:
			if r.scratch, err = r.source.room.Add(r.scratch, next[:1]); err != nil {
				return nil, row, false, false, err
			}
			row = next[1:]
			continue
		case len(r.scratch) > from:
			text = r.scratch[from:]
		}
		switch {
		case next[0] == r.comma:
			return text, next[1:], true, true, nil
		case next[0] == '\n':
			return text, next[1:], false, true, nil
		case bytes.HasPrefix(next, []byte("\r\n")):
			return text, next[2:], false, true, nil
		}
		return nil, row, false, false, nil
	}
}

// isNumber reports whether text is a JSON number.
func isNumber(text []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		text = text[n:]
		return n > 0
	}
	skip := func(any string) bool {
		if len(text) == 0 || bytes.IndexByte([]byte(any), text[0]) < 0 {
			return false
		}
		text = text[1:]
		return true
	}
	skip("-")
	if !skip("0") && !digits() {
		return false
	}
	if skip(".") && !digits() {
		return false
	}
	if skip("eE") {
		skip("+-")
		if !digits() {
			return false
		}
	}
	return len(text) == 0
}

// appendString appends text as a JSON string. Invalid UTF-8 stays unchanged; the pipeline rejects
// it.
func appendString[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
