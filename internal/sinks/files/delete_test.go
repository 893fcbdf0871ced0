package files_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sinks/files"
)

// TestARecordWithoutAValueIsMarked holds the marks of deletions in both formats.
func TestARecordWithoutAValueIsMarked(t *testing.T) {
	gone := record(2, "1", "d", "")
	gone.Value = nil
	root := t.TempDir()
	a := newArchive(t, files.Options{URL: "file://" + root, Format: files.NDJSON})
	if kept, refused, err := keep(t.Context(), a, a.Form(nil), record(1, "1", "d", `{"s":"x"}`), gone); err != nil || kept != 2 || refused != nil {
		t.Fatal(kept, refused, err)
	}
	for _, data := range tree(t, root) {
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], `,"s":"x"}`) || !strings.HasSuffix(lines[1], `"afterbay_pipeline":"p sha256:d 1","afterbay_deleted":true}`) {
			t.Errorf("%s", data)
		}
	}

	root = t.TempDir()
	a = newArchive(t, files.Options{URL: "file://" + root, Columns: []files.Column{{Name: "s", Type: "string"}}, Deletes: true})
	if kept, refused, err := keep(t.Context(), a, a.Form(nil), record(1, "1", "d", `{"s":"x"}`), gone); err != nil || kept != 2 || refused != nil {
		t.Fatal(kept, refused, err)
	}
	type line struct {
		Key     *string `parquet:"afterbay_key"`
		S       *string `parquet:"s"`
		Deleted *bool   `parquet:"afterbay_deleted"`
	}
	for _, data := range tree(t, root) {
		rows := readRows[line](t, data)
		if len(rows) != 2 || rows[0].Deleted != nil || *rows[0].S != "x" || rows[1].S != nil || rows[1].Deleted == nil || !*rows[1].Deleted || *rows[1].Key != "ann" {
			t.Errorf("%+v", rows)
		}
	}
}
