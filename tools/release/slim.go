package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modulesFolder holds the modules of slimmed while programs are built. Its name is in the programs.
const modulesFolder = ".release"

// slimmed are modules with code that looks methods up by names known only at run time. The linker
// then keeps all methods of all types of a program. A release is built with these replacements,
// which leave out lookups that Afterbay does not use. See docs/adr/0053-release.md.
var slimmed = []replacement{
	// Kong calls hooks of flags and commands by name. The linker keeps methods that are looked up by
	// a constant name, and no others.
	{"github.com/alecthomas/kong", "callbacks.go", "value.MethodByName(name)", "hookOf(value, name)", 2},
	{"github.com/alecthomas/kong", "callbacks.go", "value.Addr().MethodByName(name)", "hookOf(value.Addr(), name)", 2},
	{"github.com/alecthomas/kong", "callbacks.go", "t.MethodByName(name)", "hookIn(t, name)", 1},
	{"github.com/alecthomas/kong", "callbacks.go", "type bindings ", constantHooks() + "type bindings ", 1},
	// The checker and the machine of expr look up methods of values. Afterbay uses the parser alone,
	// which links both.
	{"github.com/expr-lang/expr", "builtin/lib.go", "method := v.MethodByName(methodName)", "_, method := methodName, reflect.Value{}", 1},
	{"github.com/expr-lang/expr", "vm/runtime/runtime.go", "method := v.MethodByName(methodName)", "_, method := methodName, reflect.Value{}", 1},
	{"github.com/expr-lang/expr", "checker/nature/utils.go", "s.rType.Method(s.idx)", "reflect.Method{}", 1},
	{"github.com/expr-lang/expr", "vm/runtime/runtime.go", "v.Method(method.Index)", "reflect.Value{}", 1},
}

// hooks are the names that Kong looks up.
var hooks = []string{"BeforeReset", "BeforeResolve", "BeforeApply", "AfterApply", "AfterRun"}

// constantHooks is code of two functions that look up a hook by a constant name.
func constantHooks() string {
	var inValue, inType strings.Builder
	for _, name := range hooks {
		fmt.Fprintf(&inValue, "\tcase %q:\n\t\treturn v.MethodByName(%q)\n", name, name)
		fmt.Fprintf(&inType, "\tcase %q:\n\t\treturn t.MethodByName(%q)\n", name, name)
	}
	return "func hookOf(v reflect.Value, name string) reflect.Value {\n\tswitch name {\n" + inValue.String() + "\t}\n\treturn reflect.Value{}\n}\n\n" +
		"func hookIn(t reflect.Type, name string) (reflect.Method, bool) {\n\tswitch name {\n" + inType.String() + "\t}\n\treturn reflect.Method{}, false\n}\n\n"
}

// A replacement changes a file of a module. The text occurs in the file a fixed number of times.
type replacement struct {
	module, file, from, to string
	times                  int
}

// slim writes changed modules below modulesFolder, and returns the go.mod that replaces them. It
// downloads modules that the module cache lacks.
func slim(root string) (modfile string, err error) {
	folder := filepath.Join(root, modulesFolder)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	copied := map[string]string{}
	for _, each := range slimmed {
		if copied[each.module] == "" {
			name := filepath.Base(each.module)
			copied[each.module] = filepath.Join(folder, name)
			if err := copyModule(copied[each.module], root, each.module); err != nil {
				return "", err
			}
			mod = fmt.Appendf(mod, "replace %s => ./%s/%s\n", each.module, modulesFolder, name)
		}
		if err := each.in(copied[each.module]); err != nil {
			return "", err
		}
	}
	modfile = filepath.Join(folder, "go.mod")
	return modfile, errors.Join(os.WriteFile(modfile, mod, 0o644), os.WriteFile(filepath.Join(folder, "go.sum"), sum, 0o644))
}

// copyModule copies the version of a module that the go.mod in root requires.
func copyModule(to, root, path string) error {
	out, err := run(root, nil, "go", "mod", "download", "-json", path)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &downloaded); err != nil {
		return fmt.Errorf("go mod download %s: %w", path, err)
	}
	return os.CopyFS(to, os.DirFS(downloaded.Dir))
}

// in changes the file of a copied module.
func (r replacement) in(dir string) error {
	path := filepath.Join(dir, filepath.FromSlash(r.file))
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(data), r.from); n != r.times {
		return fmt.Errorf("%s of %s has %q %d times, expected %d: compare the new version of the module with tools/release/slim.go", r.file, r.module, r.from, n, r.times)
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(data), r.from, r.to)), 0o644)
}
