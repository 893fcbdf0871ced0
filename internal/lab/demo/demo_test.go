package demo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestEmbeddedFilesAreThoseOfExamples compares each file that the binary embeds with its original: go:embed reads
// only files of its own folder.
func TestEmbeddedFilesAreThoseOfExamples(t *testing.T) {
	files, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range files {
		if filepath.Ext(name) == ".go" {
			continue
		}
		original, err := os.ReadFile(filepath.Join("../../../examples", name))
		if err != nil {
			t.Error(err)
			continue
		}
		embedded, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(embedded, original) {
			t.Errorf("internal/lab/demo/%s differs: copy examples/%s over it", name, name)
		}
		compared++
	}
	if compared < 8 {
		t.Errorf("only %d files were compared", compared)
	}
}
