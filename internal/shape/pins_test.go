package shape_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	requirement = regexp.MustCompile(`(?m)^([a-z0-9][a-z0-9._-]*)(\[[a-z,]+\])?==([^ \n]+)`)
	locked      = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(\[[a-z,]+\])?==[^ ]+( ; .+)? \\\n(    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n$`)
	used        = regexp.MustCompile(`uses: *(.*)`)
	pinned      = regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	toolchain   = regexp.MustCompile(`(?m)^toolchain go1\.\d+\.\d+$`)
)

// TestPackagesOfTestsHaveHashes compares each list of packages with its lock.
func TestPackagesOfTestsHaveHashes(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(root, "scripts/deps/*.in"))
	if err != nil || len(lists) == 0 {
		t.Fatal("no lists of packages in scripts/deps", err)
	}
	for _, list := range lists {
		lock := strings.TrimSuffix(list, ".in") + ".txt"
		text := read(t, lock)
		versions := map[string]string{}
		for _, block := range regexp.MustCompile(`(?m)^[^ #\n].*\n(    --.*\n)*`).FindAllString(text, -1) {
			if !locked.MatchString(block) {
				t.Errorf("%s: no version and hashes: %q. Run make locks", lock, block)
				continue
			}
			found := requirement.FindStringSubmatch(block)
			versions[found[1]] = found[3]
		}
		wanted := requirement.FindAllStringSubmatch(read(t, list), -1)
		if len(wanted) == 0 {
			t.Errorf("%s names no package", list)
		}
		for _, found := range wanted {
			if versions[found[1]] != found[3] {
				t.Errorf("%s has %s %s, its lock has %q: run make locks", list, found[1], found[3], versions[found[1]])
			}
		}
		if strings.Contains(text, "://") {
			t.Errorf("%s names a registry: every user has their own", lock)
		}
	}
	packages := read(t, filepath.Join(root, "scripts/deps/package-lock.json"))
	if strings.Contains(packages, `"resolved"`) || strings.Count(packages, `"version":`) != strings.Count(packages, `"integrity": "sha512-`) {
		t.Error("package-lock.json: a package names a registry, or has no hash: run make locks")
	}
}

// TestActionsArePinned reads the workflows: a tag of an action can move, a digest cannot.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no workflows", err)
	}
	for _, file := range files {
		for _, found := range used.FindAllStringSubmatch(read(t, file), -1) {
			if !pinned.MatchString(found[1]) {
				t.Errorf("%s: %s is not OWNER/NAME@DIGEST # vVERSION", file, found[1])
			}
		}
	}
}

// TestModulesHaveOneToolchain compares the line toolchain of all modules.
func TestModulesHaveOneToolchain(t *testing.T) {
	want := toolchain.FindString(read(t, filepath.Join(root, "go.mod")))
	if want == "" {
		t.Fatal("go.mod has no line toolchain")
	}
	walkFiles(t, ".mod", func(path string) {
		if got := toolchain.FindString(read(t, path)); got != want {
			t.Errorf("%s has %q, go.mod has %q", path, got, want)
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
