package shape_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachPackageHasOneComment sees that a package has one comment, and that the comment begins with the name of the package.
func TestEachPackageHasOneComment(t *testing.T) {
	for _, p := range packages(t) {
		entries, err := os.ReadDir(filepath.Join(root, p.folder))
		if err != nil {
			t.Fatal(err)
		}
		var commented []string
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, p.folder, entry.Name()), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc.Text() == "" {
				continue
			}
			commented = append(commented, entry.Name())
			want := "Package " + file.Name.Name + " "
			if p.command {
				want = "Command " + filepath.Base(p.folder) + " "
			}
			if got, _, _ := strings.Cut(file.Doc.Text(), "\n"); !strings.HasPrefix(got, want) {
				t.Errorf("%s/%s: the comment of the package begins %q; it begins with %q", p.folder, entry.Name(), got, want)
			}
		}
		if len(commented) == 0 && onlyTests(entries) {
			continue
		}
		if len(commented) != 1 {
			t.Errorf("%s: files %q have a comment of the package; exactly one has", p.folder, commented)
		}
	}
}

// onlyTests reports that a folder has no code but tests.
func onlyTests(entries []os.DirEntry) bool {
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".go") && !strings.HasSuffix(entry.Name(), "_test.go") {
			return false
		}
	}
	return true
}
