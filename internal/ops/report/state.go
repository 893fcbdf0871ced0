package report

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/ops/inspect"
)

// Stored returns the state entries of a key of a pipeline, by their stored key.
func Stored(ctx context.Context, directory inspect.Directory, pipeline, of string) (entries map[string][]byte, err error) {
	entries = map[string][]byte{}
	for e, err := range directory.Entries(ctx, pipeline, &of) {
		if err != nil {
			return nil, err
		}
		key, err := e.Stored()
		if err != nil {
			return nil, err
		}
		entries[string(key)] = e.Value
	}
	return entries, nil
}

// WriteHeld writes the number and size of a key's state entries for each kind. stored has the
// entries by their stored key.
func WriteHeld(out io.Writer, stored map[string][]byte) {
	entries, bytes := map[string]int{}, map[string]int{}
	for key, value := range stored {
		what := Held(key[0])
		entries[what]++
		bytes[what] += len(value)
	}
	for _, what := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(out, "%-24s %d entries, %d bytes\n", what, entries[what], bytes[what])
	}
}
