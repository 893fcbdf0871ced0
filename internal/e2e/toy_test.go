package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAModuleOfItsOwnBringsKinds runs the tests of testdata/toy, a module of its own: what
// it imports is public, and each of its kinds is one file. It runs in a workspace with the
// repository, so that it needs no network and no list of modules of its own.
func TestAModuleOfItsOwnBringsKinds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(".") // as toRoot set it
	if err != nil {
		t.Fatal(err)
	}
	toy := filepath.Join(root, "internal/e2e/testdata/toy")
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(readText(t, "go.mod"))
	// A workspace does not prune what dependencies require for themselves. One of them requires an old module that has the
	// packages of a newer one too. It is empty here: nothing of it is built.
	const old = "google.golang.org/genproto"
	empty := t.TempDir()
	work := filepath.Join(t.TempDir(), "go.work")
	for path, text := range map[string]string{
		filepath.Join(empty, "go.mod"): "module " + old + "\n",
		work:                           fmt.Sprintf("%s\n\nuse %q\nuse %q\nreplace %s => %s\n", version, root, toy, old, empty),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	command.Dir, command.Env = toy, append(os.Environ(), "GOPROXY=off", "GOWORK="+work)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	for _, path := range glob(t, filepath.Join(toy, "*.go")) {
		if strings.Contains(readText(t, path), "afterbay/internal/") {
			t.Errorf("%s imports what is not public", path)
		}
	}
}

// TestHowToShowsTheToy compares the sink of the page with the one in testdata/toy.
func TestHowToShowsTheToy(t *testing.T) {
	if page := readText(t, "docs/howto/kinds.md"); !strings.Contains(page, "```go\n"+readText(t, "internal/e2e/testdata/toy/sink.go")+"```\n") {
		t.Error("docs/howto/kinds.md does not show internal/e2e/testdata/toy/sink.go as it is: copy it")
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths
}
