package explain

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/serve"
	"github.com/afterbay/afterbay/stream"
)

// passagesMax is how many passages a data directory keeps.
const passagesMax = 16_384

func passagesPath(dir string) string { return filepath.Join(dir, "passages") }

// Passages are how events came through, in the order of their commit.
type Passages []serve.Passage

// Find returns how an event came through a pipeline.
func (list Passages) Find(pipeline string, p stream.Partition, offset stream.Offset) (serve.Passage, bool) {
	for _, one := range slices.Backward(list) {
		if one.Pipeline == pipeline && one.Topic == p.Topic && one.Partition == p.Index && int64(offset) >= one.First && int64(offset) < one.Next {
			return one, true
		}
	}
	return serve.Passage{}, false
}

// ReadPassages returns what WritePassages left in a data directory. It is a
// cache: lines that cannot be read are left out, and there may be none.
func ReadPassages(dir string) Passages {
	file, err := os.Open(passagesPath(dir))
	if err != nil {
		return nil
	}
	defer file.Close()
	var list Passages
	for lines := bufio.NewScanner(file); lines.Scan() && len(list) < 2*passagesMax; {
		var one serve.Passage
		if json.Unmarshal(lines.Bytes(), &one) == nil && one.Pipeline != "" {
			list = append(list, one)
		}
	}
	return list
}

// WritePassages adds the newest passages of a process that ends to those in its
// data directory, the file passages, a line of JSON each, and keeps the newest
// 16,384.
func WritePassages(dir string, runners []*afterbay.Runner) error {
	list := ReadPassages(dir)
	known := len(list)
	for _, r := range runners {
		for _, p := range r.Passages() {
			list = append(list, serve.NewPassage(r.Name(), p))
		}
	}
	if len(list) == known {
		return nil
	}
	slices.SortStableFunc(list, func(a, b serve.Passage) int { return a.Committed.Compare(b.Committed) })
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for _, p := range list[max(0, len(list)-passagesMax):] {
		if err := encoder.Encode(p); err != nil {
			return fmt.Errorf("write %s: %w", passagesPath(dir), err)
		}
	}
	half := passagesPath(dir) + ".half"
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", half, err)
	}
	if err := os.WriteFile(half, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", half, err)
	}
	if err := os.Rename(half, passagesPath(dir)); err != nil {
		return fmt.Errorf("write %s: %w", passagesPath(dir), err)
	}
	return nil
}
