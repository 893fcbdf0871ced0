package shape_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	designLinesMax = 80  // of the first page of the design
	wingLinesMax   = 60  // of a page about wings: one screen
	wingWidthMax   = 200 // characters of a line of such a page
)

// TestEachWingStandsInOneDesignPage sees that each package of internal/ and each public package is in the table of folders of
// exactly one page of docs/design, that such a page fits on a screen, and that the first page links to it.
func TestEachWingStandsInOneDesignPage(t *testing.T) {
	pages := map[string][]string{} // by folder
	index := readPage(t, "README.md")
	if n := strings.Count(index, "\n"); n > designLinesMax {
		t.Errorf("docs/design/README.md: %d lines; at most %d", n, designLinesMax)
	}
	for _, name := range designPages(t) {
		text := readPage(t, name)
		folders := foldersIn(text)
		for _, folder := range folders {
			pages[folder] = append(pages[folder], name)
		}
		if len(folders) == 0 {
			continue
		}
		if !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/design/README.md has no link to %s", name)
		}
		if n := strings.Count(text, "\n"); n > wingLinesMax {
			t.Errorf("docs/design/%s: %d lines; at most %d: reasons and figures belong to docs/adr", name, n, wingLinesMax)
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > wingWidthMax {
				t.Errorf("docs/design/%s:%d: %d characters; at most %d", name, i+1, n, wingWidthMax)
			}
		}
	}
	for _, p := range packages(t) {
		folder := p.folder
		if !strings.HasPrefix(folder, "internal/") && !slices.Contains(public, folder) {
			continue
		}
		if folder == "." {
			folder = "afterbay"
		}
		if found := pages[folder]; len(found) != 1 {
			t.Errorf("%s is in the tables of folders of %q: it has a row \"| `%s` | what it is for | where to begin |\" in exactly one page of docs/design", folder, found, folder)
		}
		delete(pages, folder)
	}
	for folder, found := range pages {
		t.Errorf("docs/design/%s: %s is no package", found[0], folder)
	}
}

// TestDesignPagesNameWhatExists follows the links of the pages about wings, and looks for the files and folders that they name.
func TestDesignPagesNameWhatExists(t *testing.T) {
	bases := fileNames(t)
	named := regexp.MustCompile("`([\\w./-]+\\.(?:go|md|txt|sh|py|yaml)|(?:internal|cmd|examples|scripts|docs|clients)/[\\w./-]+)`")
	for _, name := range designPages(t) {
		text := readPage(t, name)
		if name != "README.md" && len(foldersIn(text)) == 0 {
			continue
		}
		follow(t, filepath.Join(root, "docs/design", name), 0)
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			file := match[1]
			if !strings.Contains(file, "/") && bases[file] {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("docs/design/%s: %s does not exist", name, file)
			}
		}
	}
}

// foldersIn returns the folders in the first cells of tables whose first column is headed "folder".
func foldersIn(page string) (folders []string) {
	inside := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "| folder |"):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && strings.HasPrefix(line, "| `"):
			folder, _, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "`")
			folders = append(folders, folder)
		}
	}
	return folders
}

func designPages(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs/design/*.md"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/design", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fileNames returns the base names of all files of the repository that are not hidden.
func fileNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		names[filepath.Base(path)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
