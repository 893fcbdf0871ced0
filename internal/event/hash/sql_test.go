package hash_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

// TestSQLIsTheHash computes the goldens with the macro for DuckDB that the page of the
// hash has. DuckDB is that of the interpreter of AFTERBAY_READERS.
func TestSQLIsTheHash(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with duckdb")
	page, err := os.ReadFile("../../../docs/howto/share.md")
	if err != nil {
		t.Fatal(err)
	}
	macro := regexp.MustCompile("(?s)create macro.*?;").Find(page)
	const script = `
import duckdb, json, sys
c = duckdb.connect()
c.execute(sys.argv[1])
rows = [r for r in json.load(open("testdata/golden.json")) if r["kind"] != "bytes"]
for r in rows:
    got = c.execute("select hash53(?, ?)", [r["text"], r["salt"]]).fetchone()[0]
    if got != r["hash"]: sys.exit(f"{r}: DuckDB says {got}")
if len(rows) < 90: sys.exit(f"{len(rows)} rows")
`
	if out, err := exec.CommandContext(t.Context(), python, "-c", script, string(macro)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
