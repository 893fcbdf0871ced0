// Package golden compares texts with golden files. With -update, tests write the files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Update reports that golden files are written.
var Update = flag.Bool("update", false, "write the golden files")

// Check compares text with a golden file, or writes the file if Update is set.
func Check(t *testing.T, path, text string) {
	t.Helper()
	if *Update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.SplitAfter(text, "\n"), strings.SplitAfter(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s:%d: gone: %s", path, i+1, wanted[i])
		case i >= len(wanted) || got[i] != wanted[i]:
			t.Fatalf("%s:%d: %s-update writes it, if this is meant", path, i+1, got[i])
		}
	}
}
