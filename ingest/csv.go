package ingest

import (
	"bytes"
	"encoding/csv"
	"io"
	"unicode/utf8"
)

// csvReader turns the rows below a header into JSON objects:
//
//   - an empty cell is absent; a quoted empty one is an empty string
//   - a cell without quotes that is a JSON number stays that number, digit by
//     digit
//   - any other cell is a string
//
// A row that is not CSV, or has more or fewer cells than the header, is kept as
// its first line came, so that it becomes one dead letter and the rows after it
// are read.
type csvReader struct {
	source *lineReader
	names  [][]byte // `"name":`
	row    []byte   // lines of the row being read, each with its end
	ends   []int    // where each of them ends; what is behind the last is read again
}

func newCSVReader(source *lineReader) (*csvReader, error) {
	r := &csvReader{source: source}
	if err := r.readRow(); err == io.EOF {
		return nil, source.refuse(1, "the file is empty: a CSV file starts with a header that names its columns")
	} else if err != nil {
		return nil, err
	}
	header, _, ok := parseRow(r.row)
	if !ok {
		return nil, source.refuse(1, "the header is not CSV: is this the right --format?")
	}
	seen := map[string]bool{}
	for _, name := range header {
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

func (r *csvReader) next(dst []byte) ([]byte, error) {
	if err := r.readRow(); err != nil {
		return dst, err
	}
	cells, quoted, ok := parseRow(r.row[:r.ends[len(r.ends)-1]])
	if !ok || len(cells) != len(r.names) {
		first := bytes.TrimSuffix(r.row[:r.ends[0]], []byte("\n"))
		dst = append(dst, first...)
		r.consume(1)
		return dst, nil
	}
	r.consume(len(r.ends))
	dst = append(dst, '{')
	first := true
	for i, cell := range cells {
		if cell == "" && !quoted[i] {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, r.names[i]...)
		if !quoted[i] && isNumber(cell) {
			dst = append(dst, cell...)
		} else {
			dst = appendString(dst, cell)
		}
	}
	return append(dst, '}'), nil
}

// consume drops the first lines of row; the others are read again.
func (r *csvReader) consume(lines int) {
	end := r.ends[lines-1]
	r.row = r.row[:copy(r.row, r.row[end:])]
	r.ends = r.ends[:0]
}

// readRow makes row start with the lines of the next row: as many as it takes
// for its quotes to be even. Lines that are left from a row that was none come
// first. An odd quote opens at most one search for its partner, and the next
// odd one ends it, so that each line is looked at a bounded number of times.
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

// parseRow splits one row, and says which cells were quoted.
func parseRow(row []byte) (cells []string, quoted []bool, ok bool) {
	if len(row) > LineBytesMax+1 {
		return nil, nil, false
	}
	parser := csv.NewReader(bytes.NewReader(row))
	cells, err := parser.Read()
	if err != nil || parser.InputOffset() != int64(len(row)) {
		return nil, nil, false
	}
	quoted = make([]bool, len(cells))
	starts := lineStarts(row)
	for i := range cells {
		line, column := parser.FieldPos(i)
		at := starts[line-1] + column - 1
		quoted[i] = at < len(row) && row[at] == '"'
	}
	return cells, quoted, true
}

func lineStarts(row []byte) []int {
	starts := []int{0}
	for i, c := range row {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// isNumber reports whether text is a number of JSON's grammar.
func isNumber(text string) bool {
	digits := func() bool {
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		text = text[n:]
		return n > 0
	}
	skip := func(any string) bool {
		if text == "" || bytes.IndexByte([]byte(any), text[0]) < 0 {
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
	return text == ""
}

// appendString appends text as a JSON string. Bytes that are not UTF-8 stay as
// they are, for the pipeline to refuse.
func appendString(dst []byte, text string) []byte {
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
