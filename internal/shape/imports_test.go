package shape_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/afterbay/afterbay"
	root       = "../.."
	foldersMax = 16 // at the top
)

// listed is a package of the module.
type listed struct {
	folder  string // "." is the root
	command bool
	imports []string // folders
}

// packages returns the packages of the module, those that have tests alone left out.
func packages(t *testing.T) (all []listed) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-json=ImportPath,Name,GoFiles,Imports", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Name string
			GoFiles, Imports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		one := listed{folder: folderOf(p.ImportPath), command: p.Name == "main"}
		for _, imported := range p.Imports {
			if folder := folderOf(imported); folder != "" {
				one.imports = append(one.imports, folder)
			}
		}
		all = append(all, one)
	}
	if len(all) < 50 {
		t.Fatalf("only %d packages", len(all))
	}
	return all
}

// folderOf returns the folder of a package of the module, "" for another one.
func folderOf(importPath string) string {
	if importPath == module {
		return "."
	}
	folder, inside := strings.CutPrefix(importPath, module+"/")
	if !inside {
		return ""
	}
	return folder
}

// rankOf returns the rank of a folder, -1 where it has none.
func rankOf(folder string) int {
	for at := folder; ; at = path.Dir(at) {
		for _, r := range ranks {
			if slices.Contains(r.folders, at) && (at != "." || folder == ".") {
				return r.rank
			}
		}
		if at == "." {
			return -1
		}
	}
}

func TestImportsGoDownTheRanks(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		if rankOf(p.folder) < 0 {
			t.Errorf("%s has no rank: add it to ranks", p.folder)
		}
		for _, imported := range p.imports {
			below := strings.HasPrefix(imported, p.folder+"/")
			if rankOf(p.folder) > rankOf(imported) || below && rankOf(p.folder) == rankOf(imported) {
				continue
			}
			arrow := p.folder + " -> " + imported
			found[arrow] = true
			if up[arrow] == "" {
				t.Errorf("%s runs up, from rank %d to %d: move what is needed to a lower rank", arrow, rankOf(p.folder), rankOf(imported))
			}
		}
	}
	for arrow := range up {
		if !found[arrow] {
			t.Errorf("%s is gone: strike it from up", arrow)
		}
	}
}

func TestImportablePackagesAreThoseNamed(t *testing.T) {
	var found []string
	for _, p := range packages(t) {
		inside := strings.HasPrefix(p.folder, "internal/") || strings.Contains(p.folder, "/internal/")
		if !p.command && !inside {
			found = append(found, p.folder)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, public) {
		t.Errorf("importable are %s; want %s", found, public)
	}
}

// TestPackagesWithOneImporterAreJustified counts importers outside of tests.
func TestPackagesWithOneImporterAreJustified(t *testing.T) {
	all := packages(t)
	importers := map[string][]string{}
	for _, p := range all {
		for _, imported := range p.imports {
			importers[imported] = append(importers[imported], p.folder)
		}
	}
	for _, p := range all {
		one := len(importers[p.folder]) == 1 && !p.command && !slices.Contains(public, p.folder)
		switch why := alone[p.folder]; {
		case one && why == "":
			t.Errorf("only %s imports %s: make it a part of it, or say in alone why it is a package", importers[p.folder][0], p.folder)
		case !one && why != "":
			t.Errorf("%d packages import %s: strike it from alone", len(importers[p.folder]), p.folder)
		}
	}
}

// TestTheTopIsSmall counts the folders at the top that git does not ignore: hidden ones, and those that make makes, are none.
func TestTheTopIsSmall(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	made := []string{"bin", "dist", "demo-data"}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(made, e.Name()) {
			folders = append(folders, e.Name())
		}
	}
	if len(folders) > foldersMax {
		t.Errorf("%d folders at the top: %s; at most %d", len(folders), folders, foldersMax)
	}
}
