package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAModuleOfItsOwnBringsKinds runs the tests of testdata/toy, a module of its own: what
// it imports is public, and each of its kinds is one file. It is built with the versions that the
// repository has, so that it needs no network and no list of modules of its own.
func TestAModuleOfItsOwnBringsKinds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(".") // as toRoot set it
	if err != nil {
		t.Fatal(err)
	}
	toy := filepath.Join(root, "internal/e2e/testdata/toy")
	const own = "github.com/afterbay/afterbay"
	modules := strings.Replace(readText(t, "go.mod"), "module "+own, "module example.com/toy", 1) +
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n", own, root)
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": modules, "go.sum": readText(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-modfile="+filepath.Join(folder, "go.mod"), "./...")
	command.Dir, command.Env = toy, append(os.Environ(), "GOPROXY=off")
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
