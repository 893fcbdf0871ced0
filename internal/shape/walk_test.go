package shape_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const walkLinesMax = 150

// TestWalkLeadsThroughFilesThatExist follows the links of pages that lead a reader to the code. The text of
// a link to Go code is the name of the file, or ends with the name of a declaration of that file.
func TestWalkLeadsThroughFilesThatExist(t *testing.T) {
	for name, least := range map[string]int{"walk.md": 15, "where.md": 20, "layers.md": 0} {
		follow(t, filepath.Join(root, "docs/design", name), least)
	}
}

// follow follows the links of a page, of which at least so many lead to code.
func follow(t *testing.T, page string, least int) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > walkLinesMax {
		t.Errorf("%s: %d lines; at most %d", page, n, walkLinesMax)
	}
	links := regexp.MustCompile("\\[`?([^\\]`]+)`?\\]\\(([^)#]+)(?:#[^)]*)?\\)").FindAllStringSubmatch(string(text), -1)
	code := 0
	for _, link := range links {
		to := filepath.Join(filepath.Dir(page), link[2])
		if filepath.Ext(to) != ".go" {
			if _, err := os.Stat(to); err != nil {
				t.Error(err)
			}
			continue
		}
		file, err := os.ReadFile(to)
		if err != nil {
			t.Error(err)
			continue
		}
		code++
		if link[1] == filepath.Base(to) {
			continue
		}
		name := link[1][strings.LastIndexByte(link[1], '.')+1:]
		declared := regexp.MustCompile(`(?m)^\t?(func (\([^)]*\) )?|type |var )?` + regexp.QuoteMeta(name) + `\b`)
		if !declared.Match(file) {
			t.Errorf("%s does not declare %s", link[2], link[1])
		}
	}
	if code < least {
		t.Errorf("%s: only %d links to code", page, code)
	}
}
