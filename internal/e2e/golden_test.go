package e2e_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

// checkGolden compares text with a golden file, or writes it where -update says so.
func checkGolden(t *testing.T, path, text string) {
	t.Helper()
	if *updateGolden {
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
