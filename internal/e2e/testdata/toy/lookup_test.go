package toy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/lookup"
)

// owners is a scenario of a pipeline that looks up whose a card is.
func owners(lookup string, events int) string {
	var text strings.Builder
	text.WriteString("pipeline\n  pipeline: owners\n  input: {topic: payments, key: card, fields: {card: string, amount: number}}\n  steps:\n")
	text.WriteString("    - lookup: {name: of, key: card, fields: {owner: string}, empty: {owner: '\"nobody\"'}, ordered: true, " + lookup + "}\n")
	text.WriteString("    - emit: {topic: decisions, value: [card, amount, of.owner]}\n\n")
	for i := range events {
		owner := []string{"ann", "bob", "nobody"}[i%3]
		fmt.Fprintf(&text, "event 10:00:%02d {\"card\": \"c%d\", \"amount\": %d}\n  decisions {\"card\":\"c%d\",\"amount\":%d,\"of_owner\":%q}\n", i, i%3, i, i%3, i, owner)
	}
	return text.String()
}

// TestRowsAreFoundInEveryWay runs lookups of the kind with a cache and without one, and
// with events that are queued.
func TestRowsAreFoundInEveryWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cards.json")
	if err := os.WriteFile(path, []byte(`{"cards": {"c0": {"owner": "ann"}, "c1": {"owner": "bob"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{"at once": "", "with a cache": ", cache: {ttl: 1m}", "queued": ", async: true", "recorded": ", journal: true", "shared": ", journal: {by: request}"} {
		t.Run(name, func(t *testing.T) {
			ways := 0
			if err := run(t, owners("book: {path: '"+path+"', chapter: cards}"+more, 30), func(string) { ways++ }); err != nil {
				t.Fatal(err)
			}
			if ways != 7 {
				t.Errorf("it ran in %d ways, want six and that on a log of its own", ways)
			}
		})
	}
}

// TestMistakesOfLookupsHaveTheirPlace sees findings of the tags, of the place of rows and
// of Check with line and column.
func TestMistakesOfLookupsHaveTheirPlace(t *testing.T) {
	for lookup, want := range map[string]string{
		"book: {path: a.csv}":                `toy.txt:5:116: steps[0].lookup.book.path: the rows of of are JSON: name a file that ends in .json`,
		"book: {pat: a}":                     `steps[0].lookup.book.pat: unknown word "pat": did you mean "path"?`,
		"book: {chapter: a}":                 "steps[0].lookup.book: `path` is missing: add `path: ...`",
		"book: {path: a.json}, table: users": "steps[0].lookup: a lookup has exactly one of table, redis, postgres, http and book",
		"cache: {ttl: 1m}":                   "steps[0].lookup: a lookup has exactly one of",
		"book: {path: a.json}, limit: 3":     "steps[0].lookup.limit: it applies to documents that are found by a vector",
		"boko: {path: a}":                    `unknown word "boko": did you mean "book"?`,
	} {
		err := run(t, owners(lookup, 1), func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", lookup, err, want)
		}
	}
}

// TestLookupKindsThatCannotBeAreRefused brings kinds whose fields do not say what they affect.
func TestLookupKindsThatCannotBeAreRefused(t *testing.T) {
	taken, silent, stateful := Book, Book, Book
	taken.Name = "table"
	silent.New = func() lookup.Config {
		return &struct {
			book `field:"-"`
			Path string `field:"path" example:"x" help:"x"`
		}{}
	}
	stateful.New = func() lookup.Config {
		return &struct {
			book `field:"-"`
			Path string `field:"path" example:"x" help:"x" affects:"state"`
		}{}
	}
	for want, kinds := range map[string][]lookup.Kind{
		`lookup kind "table": a field with that name exists`: {taken},
		`lookup kind "book": a field with that name exists`:  {Book, Book},
		"the tag affects is needed":                          {silent},
		"the field path affects state: a lookup outside":     {stateful},
	} {
		if _, err := afterbay.Schema(afterbay.Code{Lookups: kinds}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSchemaAndReferenceHaveTheLookups sees what editors and people are shown.
func TestSchemaAndReferenceHaveTheLookups(t *testing.T) {
	text, err := afterbay.Schema(code)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct {
			Steps struct {
				Items struct {
					Properties struct {
						Lookup struct {
							Properties map[string]struct {
								Description string
								Required    []string
							}
						}
					}
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	kinds := schema.Defs.Steps.Items.Properties.Lookup.Properties
	if kind := kinds["book"]; kind.Description != Book.Help || len(kind.Required) != 1 || kinds["redis"].Description == "" {
		t.Errorf("the schema has %+v", kind)
	}
	page, err := afterbay.Reference(code)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `book` | a mapping |", "\n## `steps[].lookup.book`\n",
		"| `path` | the path of a file | required | the file, which is read for each call | `path: cards.json` |",
		"| `chapter` | a text | the file has them | the member of the file that has the rows | `chapter: cards` |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestSourceSaysWhatIsMissing asks as lint --connect does.
func TestSourceSaysWhatIsMissing(t *testing.T) {
	b := &book{Path: filepath.Join(t.TempDir(), "gone.json")}
	source, err := b.Open(t.Context(), lookup.Step{})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.(lookup.Checked).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "gone.json") {
		t.Errorf("it is %v", err)
	}
}
