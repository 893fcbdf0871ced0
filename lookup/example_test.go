package lookup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/lookup"
)

// directory is asked for one name at a time.
type directory struct{}

// Single implements lookup.Single.
func (directory) Single() bool { return true }

// Rows implements lookup.Source.
func (directory) Rows(_ context.Context, keys []string) ([][]byte, error) {
	switch name := keys[0]; {
	case strings.ContainsAny(name, "*?"):
		return nil, &lookup.Error{Refused: true, Err: errors.New("a name has no wildcard")}
	case name == "ann":
		return [][]byte{[]byte(`{"country": "NL"}`)}, nil
	}
	return [][]byte{nil}, nil
}

// A source that cannot answer several keys in one call, and refuses some.
func Example() {
	var source lookup.Source = directory{}
	if single, ok := source.(lookup.Single); !ok || !single.Single() {
		return
	}
	for _, key := range []string{"ann", "bob", "a*"} {
		rows, err := source.Rows(context.Background(), []string{key})
		fmt.Printf("%s: %s %v\n", key, rows, err)
	}
	// Output:
	// ann: [{"country": "NL"}] <nil>
	// bob: [] <nil>
	// a*: [] a name has no wildcard
}
