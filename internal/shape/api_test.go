package shape_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exportedMax is how many functions, types, variables and constants godoc shows of the public packages, without methods.
const exportedMax = 200

// TestPublicDeclarationsAreFewAndUsed counts what the public packages promise. Each declaration is in an example, in a test of
// another package, or in the signature or the type of one that is. A constant is there with its type.
func TestPublicDeclarationsAreFewAndUsed(t *testing.T) {
	api, n := exportedAPI{}, 0
	for _, folder := range public {
		api[folder] = exportedOf(t, folder)
		n += len(api[folder])
	}
	if n > exportedMax {
		t.Errorf("the public packages have %d declarations, at most %d may be: move to internal/ what only the engine uses", n, exportedMax)
	}
	used := map[string]bool{} // folder.Name
	var use func(folder, name string)
	use = func(folder, name string) {
		d := api[folder][name]
		if d == nil || used[folder+"."+name] {
			return
		}
		used[folder+"."+name] = true
		for _, other := range d.names {
			use(other[0], other[1])
		}
		for value, of := range api[folder] {
			if of.typed == name {
				use(folder, value)
			}
		}
	}
	for _, file := range usersOfAPI(t) {
		for _, s := range selectors(file.file, file.file) {
			if s[0] != file.folder || file.example {
				use(s[0], s[1])
			}
		}
	}
	for folder, names := range api {
		for name := range names {
			if !used[folder+"."+name] {
				t.Errorf("%s of %s is in no example and no test of another package: move it to internal/, or show its use", name, folder)
			}
		}
	}
}

// TestProgramsUseAllOfTheRoot sees that each function and method of the root is in an example, a command or the module of
// testdata/toy, as deadcode from their mains would tell.
func TestProgramsUseAllOfTheRoot(t *testing.T) {
	used := map[string]bool{}
	for _, pattern := range []string{"examples/*/*.go", "internal/e2e/testdata/toy/*.go", "cmd/*/*.go"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, name := range paths {
			file := parsed(t, name)
			if !slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(module) }) {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					used[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	paths, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range parsed(t, name).Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Name.IsExported() && !used[d.Name.Name] {
				t.Errorf("%s: no program uses %s", name, d.Name.Name)
			}
		}
	}
}

// exportedAPI is by folder and name.
type exportedAPI map[string]map[string]*exported

// exported is a declaration that godoc shows.
type exported struct {
	names [][2]string // folder and name of what its signature and type name, and those of its methods
	typed string      // of a constant or variable: its type
}

// exportedOf returns what a package exports.
func exportedOf(t *testing.T, folder string) map[string]*exported {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*exported{}
	methods := map[string][][2]string{}
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := parsed(t, name)
		names := func(n ast.Node) (list [][2]string) {
			ast.Inspect(n, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.IsExported() {
					list = append(list, [2]string{folder, id.Name})
				}
				return true
			})
			return append(list, selectors(file, n)...)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				switch {
				case d.Recv == nil && d.Name.IsExported():
					found[d.Name.Name] = &exported{names: names(d.Type)}
				case d.Recv != nil && d.Name.IsExported():
					for _, of := range names(d.Recv.List[0].Type) {
						methods[of[1]] = append(methods[of[1]], names(d.Type)...)
					}
				}
			case *ast.GenDecl:
				exportedIn(d, names, found)
			}
		}
	}
	for of, list := range methods {
		if found[of] != nil {
			found[of].names = append(found[of].names, list...)
		}
	}
	return found
}

// exportedIn adds what a declaration of types, constants or variables exports.
func exportedIn(d *ast.GenDecl, names func(ast.Node) [][2]string, found map[string]*exported) {
	typed := ""
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				found[s.Name.Name] = &exported{names: names(s.Type)}
			}
		case *ast.ValueSpec:
			if of, ok := s.Type.(*ast.Ident); ok {
				typed = of.Name
			} else if s.Values != nil {
				typed = ""
			}
			for _, id := range s.Names {
				if id.IsExported() {
					found[id.Name] = &exported{typed: typed}
				}
			}
		}
	}
}

// userOfAPI is a test, or a file of an example.
type userOfAPI struct {
	folder  string
	example bool // whatever its folder
	file    *ast.File
}

// usersOfAPI returns the tests and the examples of the repository.
func usersOfAPI(t *testing.T) (users []userOfAPI) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != root || d.Name() == "node_modules") {
			return leftOut(err)
		}
		relative, _ := filepath.Rel(root, name)
		relative = filepath.ToSlash(relative)
		shows := strings.HasPrefix(relative, "examples/") || strings.HasPrefix(relative, "internal/e2e/testdata/toy/") || strings.HasSuffix(relative, "example_test.go")
		if d.IsDir() || path.Ext(relative) != ".go" || !shows && !strings.HasSuffix(relative, "_test.go") {
			return nil
		}
		users = append(users, userOfAPI{path.Dir(relative), shows, parsed(t, name)})
		return nil
	})
	if err != nil || len(users) < 300 {
		t.Fatalf("%d files, %v", len(users), err)
	}
	return users
}

// leftOut returns an error of a walk, or else leaves a folder out.
func leftOut(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// selectors returns the folder and the name of what a node of a file names of the public packages.
func selectors(file *ast.File, in ast.Node) (list [][2]string) {
	folders := map[string]string{}
	for _, imported := range file.Imports {
		whole, err := strconv.Unquote(imported.Path.Value)
		folder := folderOf(whole)
		if err != nil || !slices.Contains(public, folder) {
			continue
		}
		as := path.Base(whole)
		if imported.Name != nil {
			as = imported.Name.Name
		}
		folders[as] = folder
	}
	ast.Inspect(in, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && folders[of.Name] != "" {
				list = append(list, [2]string{folders[of.Name], s.Sel.Name})
			}
		}
		return true
	})
	return list
}

func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
