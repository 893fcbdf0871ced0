package ingest_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/stream"
)

// packed returns text as gzip or zstd.
func packed(t testing.TB, kind, text string) string {
	t.Helper()
	var out bytes.Buffer
	var writer io.WriteCloser = gzip.NewWriter(&out)
	if kind == "zstd" {
		var err error
		if writer, err = zstd.NewWriter(&out); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(writer, text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestFormatIsFoundByNameAndContent(t *testing.T) {
	const lines, table = "{\"k\":\"a\"}\n{\"k\":\"b\"}\n", "k,n\na,1\n"
	tests := []struct {
		name, text string
		given      ingest.Format
		want       ingest.Format
	}{
		{"x.ndjson", lines, "", ingest.NDJSON},
		{"x", "\n \n" + lines, "", ingest.NDJSON},
		{"x.jsonl", "\uFEFF" + lines, "", ingest.NDJSON},
		{"x.json", `{"k":"a"}`, "", ingest.NDJSON},
		{"empty", "", "", ingest.NDJSON},
		{"x.csv", table, "", ingest.CSV},
		{"X.CSV", "one column\n", "", ingest.CSV},
		{"x.CSV.gz", packed(t, "gzip", table), "", ingest.CSV},
		{"x", table, ingest.CSV, ingest.CSV},
		{"x", table, ingest.NDJSON, ingest.NDJSON},
		{"x.csv", table, ingest.NDJSON, ingest.NDJSON},
		{"x.ndjson.gz", packed(t, "gzip", lines), "", ingest.NDJSON},
		{"x.gz", lines, "", ingest.NDJSON}, // a server has decompressed it
		{"standard input", packed(t, "zstd", lines), "", ingest.NDJSON},
		{"standard input", packed(t, "gzip", table), ingest.CSV, ingest.CSV},
		{"a dead letter", "not json\n" + lines, "", ingest.NDJSON},
		{"a dead letter", "[1,2]\n", "", ingest.NDJSON},
		{"a dead letter", "Oh, it broke!\n", "", ingest.NDJSON},
		{"a dead letter", `{"k":` + "\n" + lines, "", ingest.NDJSON},
	}
	for _, test := range tests {
		for _, source := range []io.Reader{strings.NewReader(test.text), iotest.OneByteReader(strings.NewReader(test.text))} {
			text, format, err := ingest.Detect(source, test.name, test.given)
			if err != nil || format != test.want {
				t.Errorf("%s %q: %q, %v, want %s", test.name, test.text, format, err, test.want)
				continue
			}
			all, err := io.ReadAll(text)
			want := test.text
			if strings.HasPrefix(want, "\x1f\x8b") || strings.HasPrefix(want, "\x28\xb5") {
				want = map[ingest.Format]string{ingest.NDJSON: lines, ingest.CSV: table}[format]
			}
			if string(all) != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", test.name, all, err, want)
			}
		}
	}
}

func TestOtherFormatsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"PAR1....":                     "the file is Parquet",
		"Obj\x01....":                  "the file is Avro",
		"PK\x03\x04....":               "a ZIP archive",
		"BZh91AY":                      "bzip2",
		"{\"a\":1}\x00\n":              "the file is binary",
		"\xff\xfe{\x00":                "UTF-16",
		"[{\"a\":1},\n{\"a\":2}]":      "jq -c '.[]'",
		"[\n  {\"a\":1}\n]":            "jq -c '.[]'",
		"{\n  \"a\": 1\n}\n":           "goes over several lines",
		"{\"a\": 1,\n \"b\": 2\n}\n":   "goes over several lines",
		"user,amount\nann,5\n":         "--format csv",
		"# payments, all\npipeline: p": "the file is YAML, as pipeline files are: name a file of events",
		"pipeline: p\ninput:\n":        "the file is YAML",
		"input:\r\n  topic: in\r\n":    "the file is YAML",
		"user;amount\nann;5\n":         "--format csv",
		"user\tamount\nann\t5\n":       "--format csv",
		packed(t, "gzip", "PAR1..."):   "the file is Parquet",
		packed(t, "gzip", "a,b\n1,2"):  "--format csv",
	} {
		_, _, err := ingest.Detect(strings.NewReader(text), "in.ndjson", "")
		var line *ingest.LineError
		if !errors.As(err, &line) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "in.ndjson:1: ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, _, err := ingest.Detect(strings.NewReader("\x1f\x8bno"), "x.gz", ""); err == nil || !strings.Contains(err.Error(), "decompress x.gz: ") {
		t.Error(err)
	}
	broken := iotest.ErrReader(errors.New("the disk is gone"))
	if _, _, err := ingest.Detect(broken, "x", ""); err == nil || !strings.Contains(err.Error(), "read x: the disk is gone") {
		t.Error(err)
	}
}

func TestKeyThatNoRecordHasIsRefused(t *testing.T) {
	log := newLog(t, stream.Topic{Name: "in", Partitions: 2})
	options := ingest.Options{Name: "x", Topic: "in", Key: "user", KeyRequired: true}
	_, err := ingest.Publish(t.Context(), log, strings.NewReader("{\"usr\":\"a\",\"n\":1}\nbroken\n"), options)
	var key *ingest.KeyError
	if !errors.As(err, &key) || err.Error() != `x: none of the first 2 records has the field "user"; the first has n, usr` {
		t.Error(err)
	}
	if found := contents(t, log, "in"); len(found) > 0 {
		t.Errorf("appended %v", found)
	}
	done, err := ingest.Publish(t.Context(), log, strings.NewReader("{\"usr\":\"a\"}\n{\"user\":\"b\"}\nbroken\n"), options)
	if err != nil || done.Appended != 3 || done.Keyless != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	options.KeyRequired = false
	if done, err := ingest.Publish(t.Context(), log, strings.NewReader("{\"usr\":\"a\"}\n"), options); err != nil || done.Keyless != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	options.KeyRequired = true
	if _, err := ingest.Publish(t.Context(), log, strings.NewReader(""), options); err != nil {
		t.Errorf("no records: %v", err)
	}
}
