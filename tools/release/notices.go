package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A component is a module that is linked, with its licence files.
type component struct {
	path, version string
	texts         map[string]string // by file, relative to the module
}

// components are sorted by path.
type components []component

// text returns the third-party notices: each module with its licence files, whole.
func (c components) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "The programs of Afterbay hold code of these %d modules.\n", len(c))
	for _, each := range c {
		fmt.Fprintf(&b, "\n%s\n%s %s\n", strings.Repeat("=", 80), each.path, each.version)
		for _, name := range sortedKeys(each.texts) {
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", name, strings.TrimSpace(each.texts[name]))
		}
	}
	return b.Bytes()
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *module
}

type module struct {
	Path, Version, Dir string
	Main               bool
}

// notices collects the licences of all code that is linked into the programs of a
// platform: of modules, of folders in them with a licence of their own, of the
// standard library, and of copies in this repository. A module without a licence
// file is an error.
func (r *release) notices(p platform) (components, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module", "-tags=" + tags}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	out, err := run(r.root, p.env(), "go", args...)
	if err != nil {
		return nil, err
	}
	found := map[string]component{}
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var each listed
		if err := decoder.Decode(&each); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if each.Standard {
			continue
		}
		if err := each.into(found); err != nil {
			return nil, err
		}
	}
	if err := standard(found); err != nil {
		return nil, err
	}
	var all components
	for _, path := range sortedKeys(found) {
		licensed, err := found[path].licensed()
		if err != nil {
			return nil, err
		}
		all = append(all, licensed)
	}
	return all, nil
}

// licensed returns the component, or an error if it has no licence file.
func (c component) licensed() (component, error) {
	if len(c.texts) == 0 {
		return c, fmt.Errorf("%s %s has no licence file: ask its authors, or replace the module", c.path, c.version)
	}
	return c, nil
}

// into adds the licence files of a package's folder and of the folders above it, up to its module.
func (l listed) into(found map[string]component) error {
	if l.Module == nil || l.Module.Dir == "" {
		return fmt.Errorf("%s has no module: run go mod download", l.ImportPath)
	}
	if l.Module.Main {
		return nil // the licence of Afterbay is a file of its own
	}
	path := l.Module.Path
	at := found[path]
	if at.texts == nil {
		at = component{path, l.Module.Version, map[string]string{}}
		found[path] = at
	}
	for dir := l.Dir; ; dir = filepath.Dir(dir) {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if f.IsDir() || !isLicence(f.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(l.Module.Dir, filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			at.texts[filepath.ToSlash(relative)] = string(text)
		}
		if dir == l.Module.Dir {
			return nil
		}
	}
}

// standard adds the standard library of Go.
func standard(found map[string]component) error {
	root, err := run("", nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	dir, version, _ := strings.Cut(root, "\n")
	text, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return err
	}
	found["std"] = component{"std", strings.TrimPrefix(version, "go"), map[string]string{"LICENSE": string(text)}}
	return nil
}

// isLicence says whether a file states a licence or must be passed on with it.
func isLicence(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	stem, _, _ = strings.Cut(stem, "-")
	return slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "PATENTS", "UNLICENSE"}, stem)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
