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
		if n := len(of); n > fanOutMax && !slices.Contains(free, wing) {
			t.Errorf("%s imports %d wings, at most %d: %s: move what stands at the wrong place", wing, n, fanOutMax, strings.Join(slices.Sorted(maps.Keys(of)), ", "))
		}
	}
}
