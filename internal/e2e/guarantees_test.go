package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Za-z0-9]+)`")

// TestGuaranteesAreShownByTestsThatExist reads the page that promises.
func TestGuaranteesAreShownByTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/design/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]map[string]bool{} // tests by folder
	for number, line := range strings.Split(string(page), "\n") {
		names := namedTest.FindAllStringSubmatch(line, -1)
		promise := strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|-") && !strings.HasSuffix(line, " shown by |")
		if promise && len(names) == 0 {
			t.Errorf("line %d promises what nothing shows: %s", number+1, line)
		}
		for _, name := range names {
			folder := name[1]
			if folder == "" {
				folder = "internal/e2e"
			}
			if exist[folder] == nil {
				exist[folder] = testsIn(t, folder)
			}
			if !exist[folder][name[2]] {
				t.Errorf("line %d: there is no %s in folder %s", number+1, name[2], folder)
			}
		}
	}
	if len(exist) < 10 {
		t.Errorf("tests of %d folders are named", len(exist))
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsIn returns the names of the tests of a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testFunction.FindAllSubmatch(text, -1) {
			names[string(name[1])] = true
		}
	}
	return names
}
