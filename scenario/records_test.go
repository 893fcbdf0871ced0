package scenario_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/scenario"
)

const recordsFile = "testdata/records.txt.gz"

var updateRecords = flag.Bool("update-records", false, "write "+recordsFile)

// TestRecordsOfScenariosAreWhatTheyWere compares every record that the scenarios leave,
// with all of its headers, and the digest of their state with testdata/records.txt.gz,
// which `go test ./scenario -run TestRecordsOfScenarios -update-records` writes.
func TestRecordsOfScenariosAreWhatTheyWere(t *testing.T) {
	var all []string
	for _, pattern := range []string{"*.txt", "functions/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			lines, err := scenario.Leaves(t.Context(), file, t.TempDir(), functions())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, lines...)
		}
	}
	if *updateRecords {
		writeRecords(t, all)
		return
	}
	want := readRecords(t)
	for i := range max(len(all), len(want)) {
		switch {
		case i >= len(all):
			t.Fatalf("%s: gone: %s", recordsFile, want[i])
		case i >= len(want) || all[i] != want[i]:
			t.Fatalf("%s, line %d:\n got %s\nwant %s\n-update-records writes it, if this is meant", recordsFile, i+1, all[i], strings.Join(want[i:min(i+1, len(want))], ""))
		}
	}
}

// TestRecordsOfATopicHaveIDsOfTheirOwn reads the same file: no two records that pipelines
// of one scenario wrote to a topic have one id.
func TestRecordsOfATopicHaveIDsOfTheirOwn(t *testing.T) {
	id := regexp.MustCompile(` afterbay-id=("(?:[^"\\]|\\.)*")`)
	seen := map[string]bool{}
	for _, line := range readRecords(t) {
		found := id.FindStringSubmatch(line)
		if found == nil || !strings.Contains(line, ` afterbay-pipeline="`) {
			continue
		}
		words := strings.Fields(line) // scenario and topic/partition
		topic, _, _ := strings.Cut(words[1], "/")
		if key := words[0] + " " + topic + " " + found[1]; seen[key] {
			t.Errorf("two records are %s", key)
		} else {
			seen[key] = true
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d ids", len(seen))
	}
}

func writeRecords(t *testing.T, lines []string) {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordsFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readRecords(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(recordsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
