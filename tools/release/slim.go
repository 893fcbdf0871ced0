package main

import (
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
	{"github.com/alecthomas/kong", "callbacks.go", "type bindings ", constantHooks + "type bindings ", 1},
	// The checker and the machine of expr look up methods of values. Afterbay uses the parser alone,
	// which links both.
	{"github.com/expr-lang/expr", "builtin/lib.go", "method := v.MethodByName(methodName)", "_, method := methodName, reflect.Value{}", 1},
	{"github.com/expr-lang/expr", "vm/runtime/runtime.go", "method := v.MethodByName(methodName)", "_, method := methodName, reflect.Value{}", 1},
	{"github.com/expr-lang/expr", "checker/nature/utils.go", "s.rType.Method(s.idx)", "reflect.Method{}", 1},
	{"github.com/expr-lang/expr", "vm/runtime/runtime.go", "v.Method(method.Index)", "reflect.Value{}", 1},
}

// constantHooks look up the hooks of Kong by constant names.
const constantHooks = `func hookOf(v reflect.Value, name string) reflect.Value {
	switch name {
	case "BeforeReset":
		return v.MethodByName("BeforeReset")
	case "BeforeResolve":
		return v.MethodByName("BeforeResolve")
	case "BeforeApply":
		return v.MethodByName("BeforeApply")
	case "AfterApply":
		return v.MethodByName("AfterApply")
	case "AfterRun":
		return v.MethodByName("AfterRun")
	}
	return reflect.Value{}
}

func hookIn(t reflect.Type, name string) (reflect.Method, bool) {
	switch name {
	case "BeforeReset":
		return t.MethodByName("BeforeReset")
	case "BeforeResolve":
		return t.MethodByName("BeforeResolve")
	case "BeforeApply":
		return t.MethodByName("BeforeApply")
	case "AfterApply":
		return t.MethodByName("AfterApply")
	case "AfterRun":
		return t.MethodByName("AfterRun")
	}
	return reflect.Method{}, false
}

`

// A replacement changes a file of a module, where the text stands so many times.
type replacement struct {
	module, file, from, to string
	times                  int
}

// slim writes changed modules below modulesFolder, and returns the go.mod that replaces them.
func slim(root string) (modfile string, err error) {
	folder := filepath.Join(root, modulesFolder)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	var replace strings.Builder
	copied := map[string]string{}
	for _, each := range slimmed {
		if copied[each.module] == "" {
			dir, err := run(root, nil, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", each.module)
			if err != nil {
				return "", err
			}
			to := filepath.Join(folder, filepath.Base(each.module))
			if err := copyModule(to, dir); err != nil {
				return "", err
			}
			copied[each.module] = to
			fmt.Fprintf(&replace, "replace %s => ./%s/%s\n", each.module, modulesFolder, filepath.Base(each.module))
		}
		if err := each.in(copied[each.module]); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			data = append(data, replace.String()...)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, "go.mod"), nil
}

// copyModule copies a module of the module cache, whose files are read-only.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
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
