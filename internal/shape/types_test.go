package shape_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	methodsMax = 40 // of a type
	fieldsMax  = 20 // of a struct that mirrors no mapping of a file, and no flags
)

// TestTypesHaveOneMeaning sees that no type has many methods and no struct many fields.
func TestTypesHaveOneMeaning(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == filepath.Join(root, "cmd"): // its structs are flags
			return filepath.SkipDir
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "third_party"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil {
			count(file, filepath.ToSlash(folder), found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		most := fieldsMax
		if strings.HasSuffix(name, " methods") {
			most = methodsMax
		}
		switch n, allowed := found[name], large[name]; {
		case n > max(most, allowed):
			t.Errorf("%s: %d, at most %d: which two things is it?", name, n, max(most, allowed))
		case allowed > 0 && n < allowed:
			t.Errorf("%s: %d, and large says %d: lower it", name, n, allowed)
		}
	}
	for name := range large {
		if found[name] == 0 {
			t.Errorf("%s is gone: strike it from large", name)
		}
	}
}

// count adds the methods and fields of the types of a file.
func count(file *ast.File, folder string, found map[string]int) {
	of := func(name, what string) string { return fmt.Sprintf("%s.%s %s", folder, name, what) }
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			found[of(receiver(d.Recv.List[0].Type), "methods")]++
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					found[of(t.Name.Name, "fields")] = fieldsOf(t.Type)
				}
			}
		}
	}
}

// large are types that are over the bounds, with how much. Their numbers only fall.
var large = map[string]int{}

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
