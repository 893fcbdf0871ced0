package ingest

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/server"
)

// FuzzCellsAreThoseOfEncodingCSV compares how a row is split with the standard library.
func FuzzCellsAreThoseOfEncodingCSV(f *testing.F) {
	for _, row := range []string{"a,b", `"a,""b",c`, "\"a\nb\",", ",", `a"b`, `"a"b`, `"a`, "\"a\r\nb\"\r", "a\r,b\r", "\"\"\"\"", "\"x\"\n\"y\""} {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, text string) {
		row := []byte(strings.TrimSuffix(text, "\n") + "\n")
		if blank(bytes.TrimSuffix(row[:bytes.IndexByte(row, '\n')], []byte("\n"))) || len(row) > 1000 {
			return // such lines are no rows
		}
		r := &csvReader{comma: ',', source: &lineReader{room: &server.Room{}}}
		ok, err := r.parse(row, 1000)
		if err != nil {
			t.Fatal(err)
		}
		parser := csv.NewReader(bytes.NewReader(row))
		want, err := parser.Read()
		if wantOK := err == nil && parser.InputOffset() == int64(len(row)); ok != wantOK {
			t.Fatalf("%q: %v, want %v: %v", row, ok, wantOK, err)
		}
		if !ok {
			return
		}
		if len(r.cells) != len(want) {
			t.Fatalf("%q: %d cells, want %q", row, len(r.cells), want)
		}
		for i, cell := range r.cells {
			if string(cell.text) != want[i] {
				t.Errorf("%q: cell %d is %q, want %q", row, i, cell.text, want[i])
			}
		}
	})
}
