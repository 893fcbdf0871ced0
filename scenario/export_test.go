package scenario

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
)

// Leaves runs a scenario on a memory log and returns a line for each record that it
// leaves, with its headers, and one for the whole sorted state.
func Leaves(ctx context.Context, path, folder string, code lang.Code) (lines []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	w, err := s.prepare(Options{Code: code})
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, p := range w.pipelines {
			p.runner.Close()
		}
	}()
	left, err := w.run(ctx, ways[0], folder)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(left.records)) {
		for _, record := range left.records[name] {
			lines = append(lines, fmt.Sprintf("%s %s: %s", filepath.Base(path), name, record))
		}
	}
	return append(lines, fmt.Sprintf("%s state: %x", filepath.Base(path), sha256.Sum256([]byte(strings.Join(left.state, "\n"))))), nil
}
