package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// lake is a pipeline whose decisions are kept as Parquet and as NDJSON below a
// folder, with more words in its emit.
func lake(root, more string) string {
	return `pipeline: fraud
input:
  topic: payments
  partitions: 2
  key: customer
  fields: {tx: string, customer: string, amount: number, v: 'optional number[2]'}
steps:
  - emit: {topic: decisions, value: {tx: tx, double: amount * 2, v: v` + more + `}}
sinks:
  - {from: decisions, name: typed, files: {url: 'file://` + root + `', rows: 400}}
  - {from: decisions, name: lines, files: {url: 'file://` + root + `', format: ndjson, rows: 300}}
`
}

func lakeEvents(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"tx":"t%d","customer":"c%d","amount":%d.5,"v":[%d,0.25]}`+"\n", i, i%17, i, i)
	}
	return b.String()
}

// objects returns the files below a folder with an ending, and their content.
func objects(t *testing.T, root, ending string) (list [][]byte) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.Contains(path, ".tmp") {
			t.Errorf("%s is left", path)
		}
		if !strings.HasSuffix(path, ending) {
			return nil
		}
		data, err := os.ReadFile(path)
		list = append(list, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestFilesHaveWhatPipelinesWroteOnce keeps what two versions of a pipeline write,
// and the same again by processes that have nothing to do.
func TestFilesHaveWhatPipelinesWroteOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	root := filepath.Join(t.TempDir(), "lake")
	write(t, "fraud.yaml", lake(root, ""))
	must(t, lakeEvents(0, 1500), "produce", "payments", "--partitions", "2", "--key", "customer")
	out := must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	if !strings.Contains(out, "sink fraud.typed: 1500 delivered, 0 repeated, 0 dead letters, 0 failed calls") || !strings.Contains(out, "sink typed: decisions to file://"+root) {
		t.Errorf("it printed\n%s", out)
	}
	must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	write(t, "fraud.yaml", lake(root, ", large: amount > 1600"))
	must(t, lakeEvents(1500, 2000), "produce", "payments", "--key", "customer")
	must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")

	type row struct {
		ID     string    `parquet:"afterbay_id"`
		Tx     *string   `parquet:"tx,optional"`
		Double *float64  `parquet:"double,optional"`
		V      []float32 `parquet:"v,optional,list"`
		Large  *bool     `parquet:"large,optional"`
	}
	var got, want []string
	ids := map[string]bool{}
	for _, data := range objects(t, root, ".parquet") {
		rows, err := parquet.Read[row](bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			large := "-"
			if r.Large != nil {
				large = fmt.Sprint(*r.Large)
			}
			got = append(got, fmt.Sprint(*r.Tx, " ", *r.Double, " ", r.V, " ", large))
			ids[r.ID] = true
		}
	}
	for i := range 2000 {
		large := "-"
		if i >= 1500 {
			large = fmt.Sprint(float64(i)+0.5 > 1600)
		}
		want = append(want, fmt.Sprintf("t%d %d [%d 0.25] %s", i, 2*i+1, i, large))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(ids) != 2000 {
		t.Errorf("rows (-want +got):\n%s\n%d ids", diff, len(ids))
	}
	lines := map[string]int{}
	for _, data := range objects(t, root, ".ndjson") {
		for line := range strings.Lines(string(data)) {
			_, after, _ := strings.Cut(line, `"tx":"`)
			tx, _, _ := strings.Cut(after, `"`)
			lines[tx]++
		}
	}
	for i := range 2000 {
		if n := lines[fmt.Sprint("t", i)]; n != 1 {
			t.Errorf("t%d is there %d times", i, n)
		}
	}
}

func TestFilesThatCannotBeAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	text := strings.Replace(lake("/data", ", afterbay_id: tx"), "rows: 400", "columns: {tx: text}, s3: {region: eu-west-1}", 1)
	text = strings.Replace(text, "format: ndjson, rows: 300}", "columns: {tx: string}, format: ndjson}, window: 1h", 1)
	write(t, "fraud.yaml", text+`  - {from: fraud.dlq, name: letters, files: {url: 'file:///data'}}
  - {from: decisions, files: {url: 'https://bucket/prefix'}}
  - {from: decisions, name: both, files: {url: 'file:///data'}, http: {url: 'http://cards'}}
`)
	r := command(t, "", "lint", "fraud.yaml")
	for _, want := range []string{
		"sinks[0].files.s3: it has no effect for a folder", `sinks[0].files.columns.tx: unknown type "text"`, "sinks[1].window: it has no effect for this kind of sink", "sinks[1].files.columns: ndjson stores all members",
		"sinks[2].files.columns: missing: no emit writes fraud.dlq", "sinks[3].files.url: the URL is not valid", "sinks[3].files: the column afterbay_id", "sinks[4]: a sink has exactly one of http, postgres, redis, files and kafka",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
}
