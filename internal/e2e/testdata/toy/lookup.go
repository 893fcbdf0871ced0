package toy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/afterbay/afterbay/lookup"
)

// Book is a kind of lookups: a file of JSON that has an object of rows by key.
var Book = lookup.Kind{
	Name:    "book",
	Help:    "a file of JSON that has an object of rows by key",
	Example: "{path: cards.json}",
	New:     func() lookup.Config { return &book{} },
}

// book is what a pipeline file says of one lookup. Another path is another place of the
// same rows, and another chapter has other rows.
type book struct {
	Path    string `field:"path" affects:"nothing" path:"true" required:"true" example:"cards.json" help:"the file, which is read for each call"`
	Chapter string `field:"chapter" affects:"outputs" example:"cards" help:"the member of the file that has the rows" absent:"the file has them"`
}

// Check finds what is wrong before anything runs.
func (b *book) Check(s lookup.Step) []error {
	if filepath.Ext(b.Path) != ".json" {
		return []error{&lookup.Mistake{Field: "path", Err: fmt.Errorf("the rows of %s are JSON", s.Name), Hint: "name a file that ends in .json"}}
	}
	return nil
}

// Open returns what reads the file.
func (b *book) Open(context.Context, lookup.Step) (lookup.Source, error) { return &reader{b}, nil }

// Describe says where the rows are.
func (b *book) Describe() string { return "book " + b.Path }

// reader finds rows.
type reader struct{ *book }

// Rows returns the row of each key. A file that cannot be read is no error of the keys:
// they are asked for again.
func (r *reader) Rows(_ context.Context, keys []string) ([][]byte, error) {
	rows, err := r.read()
	if err != nil {
		return nil, &lookup.Error{Err: err}
	}
	found := make([][]byte, len(keys))
	for i, key := range keys {
		found[i] = rows[key]
	}
	return found, nil
}

// Check is asked by `afterbay lint --connect`, and before a call after one that failed.
func (r *reader) Check(context.Context) error {
	if _, err := r.read(); err != nil {
		return &lookup.Mistake{Field: "path", Err: err, Hint: "write the file: an object of rows by key"}
	}
	return nil
}

func (r *reader) read() (rows map[string]json.RawMessage, err error) {
	text, err := os.ReadFile(r.Path)
	if err != nil {
		return nil, err
	}
	if r.Chapter == "" {
		err = json.Unmarshal(text, &rows)
		return rows, err
	}
	var chapters map[string]map[string]json.RawMessage
	err = json.Unmarshal(text, &chapters)
	return chapters[r.Chapter], err
}
