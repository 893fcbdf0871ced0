package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// places are files with room for a word in each mapping that has a renamed one.
var places = map[string]string{ // by the kind of file and the mapping
	"pipeline/":         "pipeline: p\n%s\n",
	"pipeline/breaker":  "pipeline: p\nmodels: {m: {file: m.ubj, version: 1, call: {breaker: {%s}}}}\n",
	"pipeline/dlq":      "pipeline: p\ndlq: {%s}\n",
	"pipeline/engine":   "pipeline: p\nengine: {url: kafka://a:1, %s}\n",
	"pipeline/files":    "pipeline: p\nsinks:\n  - {from: out, files: {%s}}\n",
	"pipeline/journal":  "pipeline: p\nsteps:\n  - fetch: {name: f, url: u, journal: {%s}}\n",
	"pipeline/lookup":   "pipeline: p\nsteps:\n  - route: {a: {when: b, steps: [lookup: {%s}]}}\n",
	"pipeline/partial":  "pipeline: p\nsteps:\n  - score: {partial: {%s}}\n",
	"gateway/engine":    "gateway: g\nengine: {url: kafka://a:1, %s}\n",
	"gateway/heartbeat": "gateway: g\nheartbeat: {%s}\n",
	"gateway/pipeline":  "gateway: g\npipeline: {%s}\n",
}

// TestRenamedWordsAreNamed sees that each old word of a file is an error at its line
// and column that says the new one, that the new one is known there, and that
// docs/upgrading.md lists it.
func TestRenamedWordsAreNamed(t *testing.T) {
	page, err := os.ReadFile("../../docs/upgrading.md")
	if err != nil {
		t.Fatal(err)
	}
	findings := func(kind, text string) (found Errors) {
		none := func(string) (string, bool) { return "", false }
		if kind == "gateway" {
			_, err = parseGateway("old.yaml", []byte(text), none, builtin.Kinds(), "")
		} else {
			_, err = ParseWith("old.yaml", []byte(text), none, builtin.Kinds())
		}
		errors.As(err, &found)
		return found
	}
	for _, w := range spec.Renamed {
		kinds := []string{w.File}
		if w.File == "" {
			kinds = []string{"pipeline", "gateway"}
		}
		row := fmt.Sprintf("\n| %s | `%s` | `%s` | `%s` |", strings.Join(kinds, ", "), mappingOf(w.Mapping), w.Old, w.New)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/upgrading.md has no row %s", row)
		}
		for _, kind := range kinds {
			place := places[kind+"/"+w.Mapping]
			value := func(word string) string {
				if !strings.Contains(word, ":") {
					word += ": x"
				}
				return strings.ReplaceAll(word, "...", "1")
			}
			at := strings.Index(place, "%s")
			if i := strings.Index(w.Old, ": "); i >= 0 {
				at += i + 2 // of the value
			}
			before := place[:strings.Index(place, "%s")] + w.Old
			line := 1 + strings.Count(before[:at], "\n")
			column := at - strings.LastIndexByte(before[:at], '\n')
			want := fmt.Sprintf("`%s` is now `%s`", w.Old, w.New)
			named := false
			for _, e := range findings(kind, fmt.Sprintf(place, value(w.Old))) {
				named = named || e.Message == want && e.Line == line && e.Column == column && strings.Contains(e.Hint, "docs/upgrading.md")
			}
			if !named {
				t.Errorf("%s file, %s of %q: want %s at %d:%d, got %v", kind, w.Old, w.Mapping, want, line, column, findings(kind, fmt.Sprintf(place, value(w.Old))))
			}
			word, _, _ := strings.Cut(w.New, ":")
			for _, e := range findings(kind, fmt.Sprintf(place, value(w.New))) {
				if (e.Field == word || strings.HasSuffix(e.Field, "."+word)) && (strings.Contains(e.Message, "unknown word") || strings.Contains(w.New, ": ")) {
					t.Errorf("%s file: %s of %q: %v", kind, w.New, w.Mapping, e)
				}
			}
		}
	}
}

// mappingOf names a mapping in docs/upgrading.md.
func mappingOf(mapping string) string {
	if mapping == "" {
		return "the file"
	}
	return mapping
}
