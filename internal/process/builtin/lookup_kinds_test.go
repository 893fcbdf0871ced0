package builtin_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/lookup"
)

// readLookup reads a lookup of a file: `http: {...}`.
func readLookup(t *testing.T, text string) *steps.Lookup {
	t.Helper()
	file, err := lang.ParseWith("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [lookup: {name: row, key: k, fields: {a: int}, "+text+"}]\n"), func(string) (string, bool) { return "hush", true }, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0].Steps[0].(*steps.Lookup)
}

func TestChecksOfLookupsNameTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text   string
		search bool
		want   []string
	}{
		{"redis: {url: 'redis://h:1/0'}", false, nil},
		{"http: {url: 'https://h/{key}'}", false, nil},
		{"postgres: {url: 'postgres://h/d', query: 'select $1'}", false, nil},
		{"postgres: {url: 'postgres://h/d', query: 'select $1'}", true, []string{"query: documents are found by their vectors"}},
		{"postgres: {url: 'postgres://h/d', table: t}", true, []string{": table or column is missing"}},
		{"postgres: {url: 'postgres://h/d', table: t, column: c}", true, nil},
		{"postgres: {url: 'postgres://h/d', table: t, column: c}", false, []string{"table: it applies to documents", "column: it applies to documents", "query: missing"}},
	} {
		config := readLookup(t, c.text).Config
		errs := config.Check(lookup.Step{})
		if c.search {
			errs = config.(lookup.Searcher).CheckSearch(lookup.Search{})
		}
		var found []string
		for i, err := range errs {
			place := ""
			if mistake, ok := errors.AsType[*lookup.Mistake](err); ok {
				place = mistake.Field
			}
			said := place + ": " + err.Error()
			if i < len(c.want) && strings.HasPrefix(said, c.want[i]) {
				said = c.want[i]
			}
			found = append(found, said)
		}
		if diff := cmp.Diff(c.want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
}

// TestKindsOfLookupsOpen opens a lookup of each kind, which asks no server, and says where
// its rows are.
func TestKindsOfLookupsOpen(t *testing.T) {
	seen := map[string]bool{}
	for text, want := range map[string]string{
		"http: {url: 'https://h/rows?of={key}&token=hush'}":                                     "https://h/rows",
		"redis: {url: 'redis://me:${PASSWORD}@h:1/0', prefix: 'a:'}":                            "redis://h:1/0",
		"postgres: {url: 'postgres://me:${PASSWORD}@h/d', query: 'select 1 where 1 = any($1)'}": "postgres://h/d",
	} {
		l := readLookup(t, text)
		seen[l.Kind] = true
		source, err := l.Config.Open(t.Context(), lookup.Step{Name: "row"})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := l.Config.Describe(); got != want {
			t.Errorf("%s is at %s, want %s", text, got, want)
		}
		switch source := source.(type) {
		case io.Closer:
			source.Close()
		case interface{ Close() }:
			source.Close()
		}
		if warner := l.Config.(lookup.Warner); (warner.Warnings(lookup.Step{}) != nil) != strings.Contains(text, "token=") {
			t.Errorf("%s: %v", text, warner.Warnings(lookup.Step{}))
		}
	}
	for _, kind := range builtin.Kinds().Lookups {
		if !seen[kind.Name] {
			t.Errorf("no lookup of kind %s was opened", kind.Name)
		}
	}
}
