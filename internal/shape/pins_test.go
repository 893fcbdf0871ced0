package shape_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	used      = regexp.MustCompile(`uses: *(.*)`)
	pinned    = regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	toolchain = regexp.MustCompile(`(?m)^toolchain go1\.\d+\.\d+$`)
)

// TestActionsArePinned reads the workflows: a tag of an action can move, a digest cannot.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no workflows", err)
	}
	for _, file := range files {
		for _, found := range used.FindAllStringSubmatch(read(t, file), -1) {
			if !pinned.MatchString(found[1]) {
				t.Errorf("%s: %s is not OWNER/NAME@DIGEST # vVERSION", file, found[1])
			}
		}
	}
}

// TestModulesHaveOneToolchain compares the line toolchain of all modules.
func TestModulesHaveOneToolchain(t *testing.T) {
	want := toolchain.FindString(read(t, filepath.Join(root, "go.mod")))
	if want == "" {
		t.Fatal("go.mod has no line toolchain")
	}
	walkFiles(t, ".mod", func(path string) {
		if got := toolchain.FindString(read(t, path)); got != want {
			t.Errorf("%s has %q, go.mod has %q", path, got, want)
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
