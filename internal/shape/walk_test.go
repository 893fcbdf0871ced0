package shape_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const walkLinesMax = 150

// TestWalkLeadsThroughFilesThatExist follows the links of docs/design/walk.md. The text of a link to Go code
// ends with the name of a declaration of that file.
func TestWalkLeadsThroughFilesThatExist(t *testing.T) {
	page := filepath.Join(root, "docs/design/walk.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > walkLinesMax {
		t.Errorf("%d lines; at most %d", n, walkLinesMax)
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
		name := link[1][strings.LastIndexByte(link[1], '.')+1:]
		declared := regexp.MustCompile(`(?m)^\t?(func (\([^)]*\) )?|type )?` + regexp.QuoteMeta(name) + `\b`)
		if !declared.Match(file) {
			t.Errorf("%s does not declare %s", link[2], link[1])
		}
	}
	if code < 15 {
		t.Errorf("only %d links to code", code)
	}
}
