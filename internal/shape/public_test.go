package shape_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPublicDeclarationsNameNoTypeOfInternal reads the exported declarations of the importable packages: a program of others can name all
// that they name, and all that Code holds. Types of internal/ that have a public name are listed.
func TestPublicDeclarationsNameNoTypeOfInternal(t *testing.T) {
	for _, folder := range public {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				inspectExported(t, name, func(string) bool { return true })
			}
		}
	}
	inspectExported(t, filepath.Join(root, "internal/lang/pipeline.go"), func(name string) bool { return name == "Code" })
}

// aliases are the types of internal/ for which package client and the root have a name.
var aliases = []string{"wire.Submission", "wire.ResultFrame", "lang.Code", "spec.Error", "spec.Errors", "observe.Span", "admin.Status", "explain.Report"}

// inspectExported finds types of internal/ in the exported declarations of a file that are wanted.
func inspectExported(t *testing.T, name string, wanted func(name string) bool) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	hidden := map[string]string{} // by the name that the file has for it
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Split(imported, "/"), "internal") {
			as := filepath.Base(imported)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			hidden[as] = imported
		}
	}
	look := func(what ast.Node) {
		ast.Inspect(what, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) && fieldOfStruct(what, field) {
				return false
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && hidden[p.Name] != "" && !slices.Contains(aliases, p.Name+"."+s.Sel.Name) {
					t.Errorf("%s: an exported declaration names %s of %s", set.Position(s.Pos()), s.Sel.Name, hidden[p.Name])
				}
			}
			return true
		})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && wanted(d.Name.Name) && (d.Recv == nil || receiverIsExported(d.Recv)) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && wanted(s.Name.Name) {
						look(s.Type)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) && wanted(s.Names[0].Name) {
						look(s.Type)
					}
				}
			}
		}
	}
}

// fieldOfStruct reports whether a field is one of a struct: names of parameters say nothing.
func fieldOfStruct(in ast.Node, field *ast.Field) (is bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			is = is || slices.Contains(s.Fields.List, field)
		}
		return !is
	})
	return is
}

func receiverIsExported(list *ast.FieldList) bool {
	of := list.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return ok && name.IsExported()
}
