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

const (
	methodsMax = 40
	fieldsMax  = 20
)

// mirrors are structs that have a field for each word of a mapping of the pipeline file.
var mirrors = map[string]string{"operator.Group": "group"}

// TestTypesOfTasksHaveOneMeaning bounds the methods and fields of the types of internal/task.
func TestTypesOfTasksHaveOneMeaning(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	filesOfTask(t, func(_ *token.FileSet, _ string, file *ast.File) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[file.Name.Name+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						fields[file.Name.Name+"."+s.Name.Name] = fieldsOf(s.Type)
					}
				}
			}
		}
	})
	for name, n := range methods {
		if n > methodsMax {
			t.Errorf("%s has %d methods; at most %d", name, n, methodsMax)
		}
	}
	for name, n := range fields {
		if n > fieldsMax && mirrors[name] == "" {
			t.Errorf("%s has %d fields; at most %d", name, n, fieldsMax)
		}
	}
}

// receiver returns the name of the type of a method.
func receiver(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// fieldsOf counts the fields of a struct.
func fieldsOf(e ast.Expr) (n int) {
	s, ok := e.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}
