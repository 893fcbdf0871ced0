package dataset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

const every = `pipeline: types
input:
  topic: all
  key: id
  time: {field: at, unit: rfc3339, lateness: 10s}
  fields: {id: string, at: time, part: int, end: bool, text: optional string, big: optional int, number: optional number, yes: optional bool, when: optional time, raw: optional bytes, vector: 'optional number[3]'}
steps:
  - let: {third: '(number ?? 1.0) / 3.0'}
  - group: {name: g, by: id, order: part, end: end, timeout: 1m}
  - emit: {topic: out, value: [id, third]}
`

// anyOf has a value for each type of a field, which is hard to write, or none.
func anyOf(rng *rand.Rand) map[string]any {
	texts := []string{"", "a", "007", `"`, "a,b", "x\ny", "\r\n", "ä 水 😀", " x ", "null", "NaN", "'", "\\", "\u2028", "\x00"}
	ints := []int64{0, -1, 1<<53 + 1, -(1<<53 + 1), math.MaxInt64, math.MinInt64, rng.Int64()}
	numbers := []float64{0, math.Copysign(0, -1), 1e21, 1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 1.0 / 3, rng.NormFloat64()}
	e := map[string]any{
		"text": texts[rng.IntN(len(texts))], "big": ints[rng.IntN(len(ints))], "number": numbers[rng.IntN(len(numbers))], "yes": rng.IntN(2) == 0,
		"when": time.UnixMicro(rng.Int64N(4e15)).UTC().Format("2006-01-02T15:04:05.000000Z"), "raw": []byte(texts[rng.IntN(len(texts))]),
		"vector": []float32{float32(rng.NormFloat64()), 0.1, float32(rng.IntN(9))},
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if rng.IntN(3) == 0 {
			delete(e, name)
		}
	}
	return e
}

// reader prints the rows of a file, one a line, as pyarrow or DuckDB reads them.
const reader = `
import sys, json, datetime, base64, duckdb, pyarrow as pa, pyarrow.csv, pyarrow.json, pyarrow.parquet
by, path = sys.argv[1:]
text = {"id": "VARCHAR", "text": "VARCHAR", "big": "BIGINT", "number": "DOUBLE", "yes": "BOOLEAN", "when": "TIMESTAMPTZ", "raw": "VARCHAR", "vector": "VARCHAR", "third": "DOUBLE", "g.text": "VARCHAR", "g.count": "BIGINT", "fraud": "BIGINT"}
if path.endswith(".csv"):
    if by == "duckdb":
        t = duckdb.sql("set timezone = 'UTC'; from read_csv(%r, header=true, delim=',', quote='\"', escape='\"', columns=%r, allow_quoted_nulls=false, strict_mode=true)" % (path, text)).to_arrow_table()
    else:
        types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "TIMESTAMPTZ": pa.timestamp("us", "UTC")}
        t = pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(newlines_in_values=True), convert_options=pa.csv.ConvertOptions(
            column_types={n: types[k] for n, k in text.items()}, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]))
elif path.endswith(".ndjson"):
    if by == "duckdb":
        lists = dict(text, vector="FLOAT[]"); lists["g.text"] = "VARCHAR[]"
        t = duckdb.sql("set timezone = 'UTC'; from read_json(%r, format='newline_delimited', columns=%r)" % (path, lists)).to_arrow_table()
    else:
        t = [json.loads(l, parse_int=lambda s: -0.0 if s == "-0" else int(s)) for l in open(path, newline="\n")]
else:
    t = duckdb.sql("set timezone = 'UTC'; from %r" % path).to_arrow_table() if by == "duckdb" else pa.parquet.read_table(path)
for row in t if isinstance(t, list) else t.to_pylist():
    for name, v in row.items():
        if isinstance(v, datetime.datetime):
            v = v.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if isinstance(v, bytes):
            v = base64.b64encode(v).decode()
        if name in ("vector", "g.text") and isinstance(v, str):
            v = json.loads(v)
        if name == "vector" and v is not None:
            v = [float(pa.scalar(x, pa.float32()).as_py()).hex() for x in v]
        if name in ("number", "third") and v is not None:
            v = float(v).hex()
        row[name] = v
    print(json.dumps(row, sort_keys=True))
`

// TestOtherReadersReadAllTypes reads rows with DuckDB and pyarrow, which the interpreter of
// AFTERBAY_READERS has, in each format: all have the values that Python reads from NDJSON.
func TestOtherReadersReadAllTypes(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with duckdb and pyarrow")
	const seed = 9
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Chdir(t.TempDir())
	save(t, "p.yaml", every)
	var events, labels strings.Builder
	for i := range 400 {
		at := began.Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano)
		for part := range 2 { // the names of a row are those of the first event
			e := anyOf(rng)
			e["id"], e["at"], e["part"], e["end"] = fmt.Sprintf("i%03d", i), at, part, part == 1
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			events.Write(append(line, '\n'))
		}
		if i%2 == 0 {
			fmt.Fprintf(&labels, `{"id":"i%03d","fraud":%d,"known":%q}`+"\n", i, int64(1<<53+1)+int64(i), at)
		}
	}
	save(t, "e.ndjson", events.String())
	save(t, "l.ndjson", labels.String())
	var first []string
	var digest string
	for _, format := range []string{"ndjson", "csv", "parquet"} {
		o := options("rows." + format)
		o.RowsOptions.Columns = []string{"id", "text", "big", "number", "yes", "when", "raw", "vector", "third", "g.text", "g.count"}
		o.Labels = dataset.Labels{Source: "l.ndjson", On: "id", Label: "fraud:int", Time: "known", Horizon: time.Minute, AsOf: "2027-01-01T00:00:00Z"}
		m := written(t, o)
		if digest == "" {
			digest = m.Rows.SHA256
		}
		if m.Rows.Count != 400 || m.Rows.SHA256 != digest {
			t.Errorf("%s: %+v", format, m.Rows)
		}
		for _, by := range []string{"python", "duckdb"} {
			out, err := exec.CommandContext(t.Context(), python, "-c", reader, by, "rows."+format).CombinedOutput()
			if err != nil {
				t.Fatalf("%s reads %s: %v: %.3000s", by, format, err, out)
			}
			got := strings.Split(strings.TrimSpace(string(out)), "\n")
			if first == nil {
				first = got
				if len(got) != 400 || !strings.Contains(got[0], `"fraud": 9007199254740993, `) {
					t.Errorf("seed %d: %d rows, the first is %s", seed, len(got), got[0])
				}
			}
			want := first
			if by == "duckdb" && format == "ndjson" { // its reader of JSON takes -0 as 0
				want = strings.Split(strings.ReplaceAll(strings.Join(first, "\n"), `"-0x0.0p+0"`, `"0x0.0p+0"`), "\n")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d: %s reads %s: %.3000s", seed, by, format, diff)
			}
		}
	}
}
