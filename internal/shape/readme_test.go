package shape_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommandsOfTheReadmeFindTests reads the commands `go test` of the README: their folders are there, and each alternative
// behind -run is in the name of a test.
func TestCommandsOfTheReadmeFindTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`go test ((?:-run '?([^' `]+)'? )?(?:-v )?)(\\./[^` ]+)`").FindAllStringSubmatch(string(text), -1)
	if len(commands) < 10 {
		t.Fatalf("only %d commands", len(commands))
	}
	for _, command := range commands {
		tests := testsBelow(t, command[3])
		for pattern := range strings.SplitSeq(strings.ReplaceAll(command[2], `\|`, "|"), "|") {
			if found, err := regexp.MatchString(pattern, tests); err != nil || !found || tests == "" {
				t.Errorf("%s: no test of %s is named like %q, %v", command[0], command[3], pattern, err)
			}
		}
	}
}

// testsBelow returns the names of the tests of a package, or with /... those below it too, a line each.
func testsBelow(t *testing.T, pattern string) string {
	t.Helper()
	folder, below := strings.CutSuffix(pattern, "/...")
	folder = filepath.Join(root, folder)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var names strings.Builder
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && !below && name != folder {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path.Base(filepath.ToSlash(name)), "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, test := range declared.FindAllSubmatch(text, -1) {
			names.Write(append(test[1], '\n'))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names.String()
}
