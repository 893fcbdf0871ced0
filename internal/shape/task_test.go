package shape_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filesOfTask calls a function with each file of internal/task and its folders that is no test.
func filesOfTask(t *testing.T, look func(set *token.FileSet, path string, file *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(root, "internal/task"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err == nil {
			look(set, path, file)
		}
		return err
	})
	if err != nil || files < 30 {
		t.Fatalf("%d files were looked at: %v", files, err)
	}
}

// TestTasksReadTheirClock sees that a task takes the time from the clock of its options alone. A
// deadline of a context is the model's or service's, and stays the machine's.
func TestTasksReadTheirClock(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
	filesOfTask(t, func(set *token.FileSet, path string, file *ast.File) {
		if filepath.Base(filepath.Dir(path)) == "clock" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clocks, s.Sel.Name) {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "time" {
					t.Errorf("%v: time.%s: use the Clock of the options", set.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	})
}
