package shape_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	aLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	aHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	inSlug   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	aScheme  = regexp.MustCompile(`^[a-z]+:`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
)

// TestPagesLinkToWhatIsThere follows each relative link of each page: to a file, and to a heading
// of a page.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	links := 0
	anchors := map[string]map[string]bool{}
	walkFiles(t, ".md", func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		prose := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(string(text), ""), "`")
		for _, m := range aLink.FindAllStringSubmatch(prose, -1) {
			if aScheme.MatchString(m[1]) {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(m[1], "#")
			to := path
			if name != "" {
				to = filepath.Join(filepath.Dir(path), name)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s: %v", path, m[1], err)
				continue
			}
			if anchor == "" || filepath.Ext(to) != ".md" {
				continue
			}
			if anchors[to] == nil {
				anchors[to] = anchorsOf(t, to)
			}
			if !anchors[to][anchor] {
				t.Errorf("%s: the link %s: the page has no such heading", path, m[1])
			}
		}
	})
	if links < 500 {
		t.Errorf("only %d links were followed", links)
	}
}

// anchorsOf returns the anchors of the headings of a page: in lower case, without punctuation, with
// "-" for spaces. A repeated one gets a number.
func anchorsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range aHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
		heading := linkTo.ReplaceAllString(m[1], "]")
		slug := strings.ReplaceAll(inSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
		for n := 1; all[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", strings.TrimSuffix(slug, fmt.Sprintf("-%d", n-1)), n)
		}
		all[slug] = true
	}
	return all
}
