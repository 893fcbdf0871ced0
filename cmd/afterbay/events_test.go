package main

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestProduceFindsHowAFileIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "x.ndjson", "{\"k\":\"a\",\"n\":1}\n")
	write(t, "x.ndjson.gz", zipped(t, "{\"k\":\"a\",\"n\":1}\n"))
	write(t, "x.csv", "k,n\nb,2\n")
	must(t, "", "produce", "in", "x.ndjson.gz", "--partitions", "1", "--key", "k")
	if r := command(t, "", "produce", "in", "x.ndjson"); !strings.Contains(r.stderr, "skipped 1 records that were in the topic already") {
		t.Errorf("the same content, not compressed: %+v", r)
	}
	must(t, "", "produce", "in", "x.csv")
	if got, want := must(t, "", "tail", "in"), "{\"k\":\"a\",\"n\":1}\n{\"k\":\"b\",\"n\":2}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, test := range map[string]struct{ text, want string }{
		"table":     {"k,n\na,1\n", "table:1: the first line looks like the header of a CSV file: read it with --format csv"},
		"x.parquet": {"PAR1\x00", "x.parquet:1: the file is Parquet"},
		"x.json":    {"[{\"k\":\"a\"}]", "x.json:1: the file is a JSON array: NDJSON has one JSON object a line"},
	} {
		write(t, name, test.text)
		if r := command(t, "", "produce", "in", name); r.code != exitFailure || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: %+v, want %s", name, r, test.want)
		}
	}
	if out := must(t, "", "topics"); !strings.Contains(out, " 2 ") {
		t.Errorf("a refused file was appended: %s", out)
	}
}

func TestProduceRefusesAKeyThatNoRecordHas(t *testing.T) {
	t.Chdir(t.TempDir())
	r := command(t, "{\"user\":\"a\",\"n\":1}\n", "produce", "in", "--key", "usr", "--partitions", "1")
	if r.code != exitUsage || !strings.Contains(r.stderr, "did you mean --key user? Nothing was appended") {
		t.Errorf("%+v", r)
	}
	if out := must(t, "", "topics"); strings.Contains(out, "usr") {
		t.Errorf("the topic was made with that key: %s", out)
	}
	must(t, "", "produce", "keyed", "--key", "user", "--partitions", "1")
	r = command(t, "{\"usr\":\"a\"}\n{\"user\":\"b\"}\n", "produce", "keyed")
	if r.code != exitOK || !strings.Contains(r.stderr, `1 of the records have no field "user", which keys keyed`) {
		t.Errorf("%+v", r)
	}
}
