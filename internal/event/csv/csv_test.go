package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/csv"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

func decoderOf(t testing.TB, delimiter, quote string, columns []string, fields ...string) (decode.Decoder, []decode.Field, *value.Row) {
	t.Helper()
	format, err := csv.New(delimiter, quote, columns)
	if err != nil {
		t.Fatal(err)
	}
	list, schema := slots.Of(t, fields...)
	d, err := format.Decoder(list)
	if err != nil {
		t.Fatal(err)
	}
	return d, list, &schema.NewRows(1)[0]
}

func show(d decode.Decoder, fields []decode.Field, row *value.Row, src string) string {
	row.Reset()
	if err := d.Scan([]byte(src), row); err != nil {
		return err.Error()
	}
	var got []string
	for _, f := range fields {
		got = append(got, slots.Show(row, f.Slot))
	}
	return strings.Join(got, " ")
}

func TestLinesBecomeSlots(t *testing.T) {
	d, fields, row := decoderOf(t, "", "", nil, "id int", "name string", "score optional number", "at optional time", "ok optional bool", "note optional string")
	for src, want := range map[string]string{
		"7,Ann,1.5,2026-01-01T00:00:00Z,true,x\n": `7 "Ann" 1.5 1767225600000000 true "x"`,
		"-7,\"a \"\"b\"\", c\",,,,\r\n":           `-7 "a \"b\", c" absent absent absent absent`,
		"7,,,,,\"\"":                              `7 "" absent absent absent ""`,
		"7,\"two\nlines\",1e2,,false,ü":           `7 "two\nlines" 100 absent false "ü"`,
		",a,,,,":                                  `field "id" at byte 0: column 1: absent but required: want int`,
		"x,a,,,,":                                 `field "id" at byte 0: column 1: want int, got "x"`,
		"1.5,a,,,,":                               `field "id" at byte 0: column 1: want int, got a number with a fraction or an exponent`,
		"7,a,\"\",,,":                             `field "score" at byte 4: column 3: want optional number, got ""`,
		"7,a, 1,,,":                               `field "score" at byte 4: column 3: want optional number, got " 1"`,
		"7,a,1,yesterday,,":                       `field "at" at byte 6: column 4: not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z`,
		"7,a,1,,yes,":                             `field "ok" at byte 7: column 5: want optional bool, got "yes"`,
		"7,a,1":                                   "byte 5: 3 columns: want 6",
		"7,a,1,,,,":                               "byte 8: more columns than 6",
		"7,a\"b,1,,,":                             `field "name" at byte 3: column 2: a quote in a value that does not begin with one`,
		"7,\"a\"b,1,,,":                           `field "name" at byte 5: column 2: text behind the closing quote`,
		"7,\"a,1,,,":                              `field "name" at byte 9: column 2: a quote is open`,
		"7,a,1,,,x\n8,b,1,,,":                     `field "note" at byte 9: column 6: a second line: a record is one line`,
		"7,a,1,,,\"x\"\n8,b,1,,,":                 `field "note" at byte 11: column 6: a second line: a record is one line`,
		"7,\xff,,,,":                              `field "name" at byte 2: column 2: invalid UTF-8`,
		"":                                        `field "id" at byte 0: column 1: absent but required: want int`,
	} {
		if got := show(d, fields, row, src); got != want {
			t.Errorf("%q\n  got  %s\n  want %s", src, got, want)
		}
	}
}

func TestDialects(t *testing.T) {
	d, fields, row := decoderOf(t, ";", "'", []string{"skipped", "b", "a"}, "a int", "b string")
	if got, want := show(d, fields, row, `"x;'b;''';3`), `3 "b;'"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	d, fields, row = decoderOf(t, "\t", "none", nil, "a string", "b string")
	if got, want := show(d, fields, row, "\"x\t'y\"\""), `"\"x" "'y\"\""`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, wrong := range [][2]string{{",,", ""}, {"\n", ""}, {"ü", ""}, {"'", "'"}, {"none", ""}} {
		if _, err := csv.New(wrong[0], wrong[1], nil); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
	if _, err := csv.New("", "", []string{"a", "a"}); err == nil {
		t.Error("two columns of one name: no error")
	}
}

func TestFieldsThatAreNoColumnsAreRefused(t *testing.T) {
	for _, c := range []struct{ field, want string }{
		{"a string[]", `field "a": a column of CSV cannot be of type string[]`}, {"z int", `field "z": there is no column "z"`},
	} {
		format, _ := csv.New("", "", []string{"a"})
		list, _ := slots.Of(t, c.field)
		if _, err := format.Decoder(list); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestALineCostsNoAllocation(t *testing.T) {
	d, _, row := decoderOf(t, "", "", nil, "id int", "name string", "score number", "at time", "ok bool")
	src, err := []byte("7,\"Ann\",1.5,2026-01-01T00:00:00Z,true\n"), error(nil)
	if n := testing.AllocsPerRun(100, func() { err = d.Scan(src, row) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

// FuzzScan compares lines of three strings with what encoding/csv reads.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"a,b,c", "\"a\",\"b\"\"\",c\r\n", "a,\"b\nc\",\n", "a,b", "a,b,c,d", "a,b,\"c", "a\"b,c,d", "\"a\"b,c,d", "a,b,c\nd,e,f", ",,", "\r", "a,b,c\r", "\"a\r\nb\",c,d"} {
		f.Add([]byte(seed))
	}
	d, fields, row := decoderOf(f, "", "", nil, "a string", "b string", "c string")
	f.Fuzz(func(t *testing.T, src []byte) {
		line := bytes.TrimRight(src, "\r\n")
		if !utf8.Valid(src) || len(line) == 0 || src[0] == '\n' || src[0] == '\r' || len(src)-len(line) > 1 && string(src[len(line):]) != "\r\n" {
			return // encoding/csv passes empty lines
		}
		reader := stdcsv.NewReader(bytes.NewReader(src))
		reader.FieldsPerRecord = 3
		want, err := reader.Read()
		if err == nil {
			if _, more := reader.Read(); more != io.EOF {
				err = stdcsv.ErrFieldCount
			}
		}
		row.Reset()
		got := d.Scan(src, row)
		if (got == nil) != (err == nil) {
			t.Fatalf("%q: got %v, encoding/csv %v", src, got, err)
		}
		for i := 0; got == nil && i < len(want); i++ {
			if text := strings.ReplaceAll(row.Text(fields[i].Slot), "\r\n", "\n"); text != want[i] {
				t.Errorf("%q: column %d is %q, encoding/csv %q", src, i+1, text, want[i])
			}
		}
	})
}
