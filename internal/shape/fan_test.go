package shape_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const fanOutMax = 12 // wings that a wing imports

// free are wings whose purpose is to bring the others together.
var free = []string{"process", "lab", "cmd"}

// wide are the wings that import more, how many, and what ends it. The list only shrinks.
var wide = map[string]struct {
	imports int
	ends    string
}{
	"http": {14, "admin has figures of pipelines, sinks, lookups and fetches from one snapshot"},
}

// wingOf returns the wing of a folder: that below internal/, or cmd; "" is a public package.
func wingOf(folder string) string {
	first, rest, _ := strings.Cut(folder, "/")
	switch first {
	case "internal":
		wing, _, _ := strings.Cut(rest, "/")
		return wing
	case "cmd":
		return first
	}
	return ""
}

// TestWingsImportFewOthers counts the wings that the packages of a wing import, public packages left out.
func TestWingsImportFewOthers(t *testing.T) {
	imports := map[string]map[string]bool{}
	for _, p := range packages(t) {
		wing := wingOf(p.folder)
		for _, imported := range p.imports {
			if to := wingOf(imported); wing != "" && to != "" && to != wing {
				if imports[wing] == nil {
					imports[wing] = map[string]bool{}
				}
				imports[wing][to] = true
			}
		}
	}
	for wing, of := range imports {
		most := fanOutMax
		if wide[wing].ends != "" {
			most = wide[wing].imports
		}
		switch n := len(of); {
		case slices.Contains(free, wing):
		case n > most:
			t.Errorf("%s imports %d wings, at most %d: %s: move what stands at the wrong place", wing, n, most, strings.Join(slices.Sorted(maps.Keys(of)), ", "))
		case wide[wing].ends != "" && n < most:
			t.Errorf("%s imports %d wings, and wide says %d: lower it, or strike it", wing, n, most)
		}
	}
}
