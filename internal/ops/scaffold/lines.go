package scaffold

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/afterbay/afterbay/internal/http/ingest"
)

// lines describes the columns of CSV without a header.
type lines struct {
	columns   []string // c1, c2 and so on; nil if events are objects
	delimiter byte
}

// withHeader adds a header to CSV that has none.
func (s *scan) withHeader(source io.Reader) io.Reader {
	text := bufio.NewReaderSize(source, 64<<10)
	start, _ := text.Peek(64 << 10) // the next read returns the error
	if mark := []byte("\uFEFF"); bytes.HasPrefix(start, mark) {
		start = start[len(mark):]
		_, _ = text.Discard(len(mark)) // Peek has read it already
	}
	first, _, _ := bytes.Cut(bytes.TrimLeft(start, "\r\n"), []byte("\n"))
	l := &s.findings.lines
	l.delimiter = ingest.Separator(first)
	cells, quoted := 1, false
	for _, c := range first {
		switch {
		case c == '"':
			quoted = !quoted
		case c == l.delimiter && !quoted:
			cells++
		}
	}
	for i := range min(cells, columnsMax) {
		l.columns = append(l.columns, fmt.Sprintf("c%d", i+1))
	}
	return io.MultiReader(strings.NewReader(strings.Join(l.columns, string(l.delimiter))+"\n"), text)
}

// format writes the fields of the pipeline file that describe the lines.
func (w *writer) format() {
	l := w.lines
	if l.columns == nil {
		return
	}
	delimiter := ""
	if l.delimiter != ',' {
		delimiter = fmt.Sprintf("delimiter: %q, ", string(l.delimiter))
	}
	w.line(fmt.Sprintf("  format: {csv: {%scolumns: [%s]}}", delimiter, strings.Join(l.columns, ", ")), "name them here and in fields below")
	w.line("  repartition: 4", "by the key below, since a line has no key outside of it")
}
