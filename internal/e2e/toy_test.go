package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAModuleOfItsOwnBringsKinds runs the tests of testdata/toy, a module of its own: what
// it imports is public, and each of its kinds is one file. It needs no network, since the
// modules that the repository needs are all that it needs.
func TestAModuleOfItsOwnBringsKinds(t *testing.T) {
	root, err := filepath.Abs(".") // as toRoot set it
	if err != nil {
		t.Fatal(err)
	}
	toy := filepath.Join(root, "internal/e2e/testdata/toy")
	mod := filepath.Join(t.TempDir(), "go.mod")
	text := strings.Replace(readText(t, filepath.Join(toy, "go.mod")), "=> ../../../..", "=> "+root, 1)
	for _, needed := range regexp.MustCompile(`(?ms)^require \(\n.*?^\)\n`).FindAllString(readText(t, filepath.Join(root, "go.mod")), -1) {
		text += needed
	}
	for path, text := range map[string]string{mod: text, strings.TrimSuffix(mod, "mod") + "sum": readText(t, filepath.Join(root, "go.sum"))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"vet"}, {"test", "-count=1"}} {
		command := exec.CommandContext(t.Context(), "go", append(args, "-mod=mod", "-modfile="+mod, "./...")...)
		command.Dir = toy
		command.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}
	for _, path := range glob(t, filepath.Join(toy, "*.go")) {
		if strings.Contains(readText(t, path), "afterbay/internal/") {
			t.Errorf("%s imports what is not public", path)
		}
	}
}

// TestHowToShowsTheToy sees that the page has the kinds of testdata/toy as they are.
func TestHowToShowsTheToy(t *testing.T) {
	if page, kind := readText(t, "docs/howto/kinds.md"), readText(t, "internal/e2e/testdata/toy/sink.go"); !strings.Contains(page, "```go\n"+kind+"```\n") {
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
