package tabular_test

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

var seed = flag.Uint64("seed", 0, "seed of the random rows; 0 is the time")

// table is rows in memory: nil, bool, int64, float64, string or time.Time cells.
type table struct {
	schema value.Schema
	cells  [][]any
}

var columns = []struct{ name, kind string }{
	{"meta.id", "string"}, {"spend.sum_1h", "number"}, {"at", "time"}, {"n", "int"}, {"ok", "bool"}, {"raw", "bytes"},
	{`odd "name", here`, "optional string"}, {"x", "optional number"}, {"m", "optional int"}, {"b", "optional bool"}, {"t", "optional time"}, {"r", "optional bytes"},
}

// random returns n rows of every type, absent ones among them.
func random(t *testing.T, n int) *table {
	t.Helper()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d draws these rows again", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	tab := &table{}
	for _, c := range columns {
		kind, err := value.ParseType(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tab.schema.Add(c.name, kind); err != nil {
			t.Fatal(err)
		}
	}
	texts := []string{"", "a", "007", `"`, "a,b", "\n", "\r\n", "ä 水", " x ", "null", "\x00"}
	numbers := []float64{0, math.Copysign(0, -1), 1e21, 1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 1.0 / 3}
	for range n {
		row := make([]any, len(columns))
		for i, slot := range tab.schema.Slots {
			if slot.Type.Optional && r.IntN(3) == 0 {
				continue
			}
			switch slot.Type.Kind {
			case value.Bool:
				row[i] = r.IntN(2) == 0
			case value.Int:
				row[i] = []int64{r.Int64(), -r.Int64(), 0, math.MinInt64, math.MaxInt64}[r.IntN(5)]
			case value.Number:
				row[i] = numbers[r.IntN(len(numbers))]
				if r.IntN(2) == 0 {
					row[i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
				}
			case value.Time:
				row[i] = time.UnixMicro(r.Int64N(4e15)).UTC()
			default:
				row[i] = texts[r.IntN(len(texts))]
			}
		}
		tab.cells = append(tab.cells, row)
	}
	return tab
}

// write writes the table in a format.
func (tab *table) write(t testing.TB, format tabular.Format) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := tabular.New(&out, format, tab.schema.Slots)
	if err != nil {
		t.Fatal(err)
	}
	row := tab.schema.NewRows(1)[0]
	for _, cells := range tab.cells {
		row.Reset()
		for i, slot := range tab.schema.Slots {
			switch v := cells[i].(type) {
			case bool:
				row.SetBool(slot, v)
			case int64:
				row.SetInt(slot, v)
			case float64:
				row.SetNumber(slot, v)
			case string:
				row.SetText(slot, v)
			case time.Time:
				row.SetInt(slot, v.UnixMicro())
			}
		}
		if err := w.Write(&row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (tab *table) names() []string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

var bits = cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })

func TestCSVReadsBackEqual(t *testing.T) {
	tab := random(t, 3000)
	text := tab.write(t, tabular.CSV)
	// encoding/csv turns \r\n in quotes into \n and does not tell "" from
	// nothing: both are looked at below.
	for i := range tab.cells {
		for j := range tab.cells[i] {
			if tab.cells[i][j] == "\r\n" {
				tab.cells[i][j] = "\n"
			}
		}
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tab.names(), records[0]); diff != "" {
		t.Error(diff)
	}
	for i, record := range records[1:] {
		for j, cell := range record {
			want := tab.cells[i][j]
			slot := tab.schema.Slots[j]
			var got any
			var err error
			switch {
			case cell == "" && (want == nil || want == ""):
				continue
			case slot.Type.Kind == value.Bool:
				got, err = strconv.ParseBool(cell)
			case slot.Type.Kind == value.Int:
				got, err = strconv.ParseInt(cell, 10, 64)
			case slot.Type.Kind == value.Number:
				got, err = strconv.ParseFloat(cell, 64)
			case slot.Type.Kind == value.Time:
				got, err = time.Parse(time.RFC3339Nano, cell)
			case slot.Type.Kind == value.Bytes:
				var b []byte
				b, err = base64.StdEncoding.DecodeString(cell)
				got = strings.ReplaceAll(string(b), "\r\n", "\n")
			default:
				got = cell
			}
			if err != nil || !cmp.Equal(want, got, bits) {
				t.Fatalf("row %d, %s: %v from %q, want %v; %v", i, slot.Name, got, cell, want, err)
			}
		}
	}
	if len(records) != 3001 {
		t.Errorf("%d records", len(records))
	}
}

func TestCSVTellsAbsentFromEmpty(t *testing.T) {
	var schema value.Schema
	a, _ := schema.Add("a", value.Type{Kind: value.String, Optional: true})
	b, _ := schema.Add("b", value.Type{Kind: value.String})
	row := schema.NewRows(1)[0]
	row.SetText(b, "")
	var out bytes.Buffer
	w, err := tabular.New(&out, tabular.CSV, schema.Slots)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&row); err != nil {
		t.Fatal(err)
	}
	row.SetText(a, "7")
	if err := w.Write(&row); err != nil || w.Close() != nil || out.String() != "a,b\n,\"\"\n\"7\",\"\"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestNumbersThatAreNotFiniteStayReadable writes what a model may return.
func TestNumbersThatAreNotFiniteStayReadable(t *testing.T) {
	var schema value.Schema
	x, _ := schema.Add("x", value.Type{Kind: value.Number})
	v, _ := schema.Add("v", value.Type{Kind: value.Vector, Size: 3})
	nan, inf := math.NaN(), math.Inf(1)
	for format, want := range map[tabular.Format]string{
		tabular.NDJSON: `{"x":null,"v":[null,null,1.5]}` + "\n" + `{"x":null,"v":[null,null,1.5]}` + "\n" + `{"x":null,"v":[null,null,1.5]}` + "\n",
		tabular.CSV:    "x,v\nNaN,\"[null,null,1.5]\"\n+Inf,\"[null,null,1.5]\"\n-Inf,\"[null,null,1.5]\"\n",
	} {
		var out bytes.Buffer
		w, err := tabular.New(&out, format, schema.Slots)
		if err != nil {
			t.Fatal(err)
		}
		row := schema.NewRows(1)[0]
		for _, n := range []float64{nan, inf, -inf} {
			row.SetNumber(x, n)
			row.SetVector(v, []float32{float32(nan), float32(-inf), 1.5})
			if err := w.Write(&row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || out.String() != want {
			t.Errorf("%s: %s, want %s, %v", format, out.String(), want, err)
		}
	}
}

func TestNDJSONReadsBackEqual(t *testing.T) {
	tab := random(t, 2000)
	lines := bytes.Split(bytes.TrimSuffix(tab.write(t, tabular.NDJSON), []byte("\n")), []byte("\n"))
	if len(lines) != 2000 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		var object map[string]any
		if err := decoder.Decode(&object); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for j, slot := range tab.schema.Slots {
			got, there := object[slot.Name]
			want := tab.cells[i][j]
			switch v := want.(type) {
			case int64:
				want = json.Number(strconv.FormatInt(v, 10))
			case float64:
				n, err := got.(json.Number).Float64()
				if err != nil {
					t.Fatal(err)
				}
				got = n
			case time.Time:
				want = v.Format("2006-01-02T15:04:05.000000Z")
			case string:
				if slot.Type.Kind == value.Bytes {
					want = base64.StdEncoding.EncodeToString([]byte(v))
				}
			}
			if !there || !cmp.Equal(want, got, bits) {
				t.Fatalf("row %d, %s: %v, want %v", i, slot.Name, got, want)
			}
		}
	}
}

// TestParquetReadsBackEqual needs two row groups.
func TestParquetReadsBackEqual(t *testing.T) {
	tab := random(t, 70_000)
	data := tab.write(t, tabular.Parquet)
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, c := range file.Schema().Fields() {
		names = append(names, c.Name())
		if c.Optional() != tab.schema.Slots[i].Type.Optional {
			t.Errorf("%s is optional: %v", c.Name(), c.Optional())
		}
	}
	if diff := cmp.Diff(tab.names(), names); diff != "" {
		t.Error(diff)
	}
	wantTypes := "BYTE_ARRAY/STRING DOUBLE/ INT64/TIMESTAMP INT64/INT BOOLEAN/ BYTE_ARRAY/"
	var types []string
	for _, c := range file.Schema().Fields()[:6] {
		text := c.Type().Kind().String() + "/"
		if l := c.Type().LogicalType(); l != nil {
			text += strings.Split(l.String(), "(")[0]
		}
		types = append(types, text)
	}
	if got := strings.Join(types, " "); got != wantTypes {
		t.Errorf("types %s, want %s", got, wantTypes)
	}
	if groups := len(file.RowGroups()); groups != 2 || file.NumRows() != 70_000 {
		t.Errorf("%d row groups, %d rows", groups, file.NumRows())
	}
	number := 0
	for _, group := range file.RowGroups() {
		reader := group.Rows()
		for buffer := make([]parquet.Row, 500); ; {
			n, err := reader.ReadRows(buffer)
			for _, row := range buffer[:n] {
				tab.compare(t, number, row)
				number++
			}
			if n == 0 || err != nil {
				break
			}
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if number != 70_000 {
		t.Errorf("%d rows were read", number)
	}
}

func (tab *table) compare(t *testing.T, number int, row parquet.Row) {
	t.Helper()
	for j, v := range row {
		var got any
		switch slot := tab.schema.Slots[j]; {
		case v.IsNull():
		case slot.Type.Kind == value.Bool:
			got = v.Boolean()
		case slot.Type.Kind == value.Int:
			got = v.Int64()
		case slot.Type.Kind == value.Number:
			got = v.Double()
		case slot.Type.Kind == value.Time:
			got = time.UnixMicro(v.Int64()).UTC()
		default:
			got = string(v.ByteArray())
		}
		if !cmp.Equal(tab.cells[number][j], got, bits) {
			t.Fatalf("row %d, column %d: %v, want %v", number, j, got, tab.cells[number][j])
		}
	}
}

// TestPythonReadsParquet reads with pyarrow, which the interpreter of AFTERBAY_READERS
// has.
func TestPythonReadsParquet(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with pyarrow")
	tab := random(t, 1000)
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if err := os.WriteFile(path, tab.write(t, tabular.Parquet), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `
import sys, pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
print([str(f.type) for f in t.schema][:6])
for v in t.column("spend.sum_1h").to_pylist(): print(float(v).hex())
`
	out, err := exec.CommandContext(t.Context(), python, "-c", script, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if lines[0] != "['string', 'double', 'timestamp[us, tz=UTC]', 'int64', 'bool', 'binary']" || len(lines) != 1001 {
		t.Fatalf("%s, %d lines", lines[0], len(lines))
	}
	for i, line := range lines[1:] {
		if got, err := strconv.ParseFloat(line, 64); err != nil || !cmp.Equal(tab.cells[i][1], any(got), bits) {
			t.Fatalf("row %d: %s, want %v", i, line, tab.cells[i][1])
		}
	}
}

func TestWhatCannotBeWrittenIsSaid(t *testing.T) {
	var schema value.Schema
	slot, _ := schema.Add("a", value.Type{Kind: value.Int})
	row := schema.NewRows(1)[0]
	for _, format := range []tabular.Format{tabular.CSV, tabular.NDJSON, tabular.Parquet} {
		w, err := tabular.New(&bytes.Buffer{}, format, schema.Slots)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&row); err == nil || !strings.Contains(err.Error(), "row 1 has no value in column a") {
			t.Errorf("%s: %v", format, err)
		}
	}
	for want, open := range map[string]func() error{
		"named twice":         func() error { _, err := tabular.New(nil, tabular.CSV, []value.Slot{slot, slot}); return err },
		"without columns":     func() error { _, err := tabular.New(nil, tabular.CSV, nil); return err },
		"unknown format":      func() error { _, err := tabular.New(nil, "xml", schema.Slots); return err },
		"has no known format": func() error { _, err := tabular.FormatOf("rows.xls"); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for path, want := range map[string]tabular.Format{"a.csv": tabular.CSV, "x/b.ndjson": tabular.NDJSON, "c.jsonl": tabular.NDJSON, "d.parquet": tabular.Parquet} {
		if got, err := tabular.FormatOf(path); got != want || err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, format := range []tabular.Format{tabular.CSV, tabular.NDJSON, tabular.Parquet} {
		b.Run(string(format), func(b *testing.B) {
			var schema value.Schema
			for i := range 30 {
				_, _ = schema.Add(fmt.Sprint("c", i), value.Type{Kind: value.Number})
			}
			row := schema.NewRows(1)[0]
			for i, slot := range schema.Slots {
				row.SetNumber(slot, float64(i)/7)
			}
			var out bytes.Buffer
			w, err := tabular.New(&out, format, schema.Slots)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(&row); err != nil {
					b.Fatal(err)
				}
				if out.Len() > 1<<26 {
					out.Reset()
				}
			}
		})
	}
}

func TestRawIsJSONInJSONAndTextElsewhere(t *testing.T) {
	tab := &table{cells: [][]any{{`{"a" : "b"}`}, {nil}}}
	if _, err := tab.schema.Add("r", value.Type{Kind: value.Raw, Optional: true}); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[tabular.Format]string{
		tabular.CSV: "r\n\"{\"\"a\"\" : \"\"b\"\"}\"\n\n", tabular.NDJSON: "{\"r\":{\"a\" : \"b\"}}\n{\"r\":null}\n",
	} {
		if got := string(tab.write(t, format)); got != want {
			t.Errorf("%v: %q, want %q", format, got, want)
		}
	}
	if got := tab.write(t, tabular.Parquet); !bytes.Contains(got, []byte(`{"a" : "b"}`)) {
		t.Errorf("Parquet has not the text: %q", got)
	}
}

// TestListsAndMapsAreWritten writes them to each format, and reads Parquet back.
func TestListsAndMapsAreWritten(t *testing.T) {
	element := func(n uint64) value.Element { return value.Element{Num: n} }
	ints := string(value.AppendElement(value.AppendElement(nil, value.Int, element(1)), value.Int, element(2)))
	bools := string(value.AppendElement(nil, value.Bool, element(1)))
	words := string(value.AppendElement(nil, value.Raw, value.Element{Str: `{"a":"b"}`}))
	counts := string(value.AppendMap(nil, value.Int, []value.Entry{{Key: "x", Element: element(5)}, {Key: "b\"", Element: element(7)}}))
	tab := &table{cells: [][]any{{ints, counts, bools, words, int64(3)}, {"", "", "", nil, int64(4)}, {ints, counts, nil, words, int64(5)}}}
	for _, c := range []struct{ name, kind string }{{"is", "int[]"}, {"m", "map of int"}, {"bs", "optional bool[]"}, {"rs", "optional raw[]"}, {"n", "int"}} {
		typ, err := value.ReadType(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tab.schema.Add(c.name, typ); err != nil {
			t.Fatal(err)
		}
	}
	for format, want := range map[tabular.Format]string{
		tabular.CSV: `is,m,bs,rs,n
"[1,2]","{""b\"""":7,""x"":5}","[true]","[{""a"":""b""}]",3
"[]","{}","[]",,4
"[1,2]","{""b\"""":7,""x"":5}",,"[{""a"":""b""}]",5
`,
		tabular.NDJSON: `{"is":[1,2],"m":{"b\"":7,"x":5},"bs":[true],"rs":[{"a":"b"}],"n":3}
{"is":[],"m":{},"bs":[],"rs":null,"n":4}
{"is":[1,2],"m":{"b\"":7,"x":5},"bs":null,"rs":[{"a":"b"}],"n":5}
`,
	} {
		if got := string(tab.write(t, format)); got != want {
			t.Errorf("%v:\n got %s\nwant %s", format, got, want)
		}
	}
	data := tab.write(t, tabular.Parquet)
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for reader := parquet.NewReader(file); ; {
		one := map[string]any{}
		if err := reader.Read(&one); err != nil {
			break
		}
		rows = append(rows, fmt.Sprint(one))
	}
	want := []string{
		`map[bs:[true] is:[1 2] m:map[b":7 x:5] n:3 rs:[{"a":"b"}]]`,
		`map[bs:[] is:[] m:map[] n:4 rs:<nil>]`,
		`map[bs:<nil> is:[1 2] m:map[b":7 x:5] n:5 rs:[{"a":"b"}]]`,
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
}
