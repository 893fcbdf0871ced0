package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesAreSlimmed changes the modules of the repository: each text stands in its file as
// often as is said.
func TestModulesAreSlimmed(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modules, err := slim(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(modules)
	if err != nil || !strings.Contains(string(text), "replace github.com/alecthomas/kong => ./.release/kong\n") {
		t.Errorf("%s, %v", text, err)
	}
	if err := slimmed[0].in(filepath.Join(root, modulesFolder, "kong")); err == nil {
		t.Error("a text that is gone is replaced again")
	}
}
