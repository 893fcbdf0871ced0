package shape_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 600
)

func TestShapeOfFilesFunctionsAndDocs(t *testing.T) {
	files := 0
	walkFiles(t, ".go", func(path string) {
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			return
		}
		lines := set.File(file.Pos()).LineCount()
		if lines > fileLinesMax {
			t.Errorf("%s has %d lines; at most %d", path, lines, fileLinesMax)
		}
		for _, decl := range file.Decls {
			checkDeclaration(t, set, path, decl)
		}
	})
	if files < 20 {
		t.Errorf("only %d files were looked at", files)
	}
}

// TestShapeOfClaims sees that a figure in docs/performance.md has a file with
// the command that printed it.
func TestShapeOfClaims(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\(results/([a-z-]+\.txt)\)`).FindAllStringSubmatch(string(text), -1)
	if len(links) == 0 {
		t.Fatal("docs/performance.md shows nothing")
	}
	for _, link := range links {
		result, err := os.ReadFile(filepath.Join(root, "docs/results", link[1]))
		if err != nil || !strings.Contains(string(result), "commit: ") || !strings.Contains(string(result), "command: ") {
			t.Errorf("docs/results/%s lacks its commit or command: %v", link[1], err)
		}
	}
}

func checkDeclaration(t *testing.T, set *token.FileSet, path string, decl ast.Decl) {
	t.Helper()
	test := strings.HasSuffix(path, "_test.go")
	at := set.Position(decl.Pos())
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if n := set.Position(d.End()).Line - at.Line + 1; n > functionLinesMax {
			t.Errorf("%v: %s has %d lines; at most %d", at, d.Name.Name, n, functionLinesMax)
		}
		if !test && d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
			t.Errorf("%v: %s has no comment", at, d.Name.Name)
		}
		if d.Name.Name == "init" && d.Recv == nil {
			t.Errorf("%v: init has side effects that nobody asked for", at)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok && !test && s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				t.Errorf("%v: %s has no comment", at, s.Name.Name)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	name, ok := kind.(*ast.Ident)
	return ok && name.IsExported()
}
