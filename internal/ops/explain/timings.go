package explain

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sys/replace"
	"github.com/afterbay/afterbay/stream"
)

// Limits of the timings that a data directory keeps.
const (
	timingsMax = 16_384
	lineMax    = 1 << 20 // bytes per timing
)

func timingsPath(dir string) string { return filepath.Join(dir, "timings") }

// Timings are the timings of events, in the order of their commit.
type Timings []inspect.Timing

// Find returns the timing of an event in a pipeline.
func (list Timings) Find(pipeline string, p stream.Partition, offset stream.Offset) (inspect.Timing, bool) {
	for _, one := range slices.Backward(list) {
		if one.Pipeline == pipeline && one.Topic == p.Topic && one.Partition == p.Index && int64(offset) >= one.First && int64(offset) < one.Next {
			return one, true
		}
	}
	return inspect.Timing{}, false
}

// ReadTimings returns the timings that WriteTimings left in a data directory. The file is a cache:
// ReadTimings skips lines that it cannot read, and the list may be empty.
func ReadTimings(dir string) Timings {
	file, err := os.Open(timingsPath(dir))
	if err != nil {
		return nil
	}
	defer file.Close()
	var list Timings
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, lineMax); lines.Scan() && len(list) < 2*timingsMax; {
		var one inspect.Timing
		if json.Unmarshal(lines.Bytes(), &one) == nil && one.Pipeline != "" {
			list = append(list, one)
		}
	}
	return list
}

// bound removes the details of order waits from all but the newest timings.
func (list Timings) bound() {
	turns := 0
	for i := range slices.Backward(list) {
		if turns += len(list[i].Turns); turns > observe.TurnsMax {
			list[i].Turns = nil
		}
	}
}

// WriteTimings adds the newest timings of an ending process to the file timings in its data
// directory. The file has one line of JSON per timing. WriteTimings keeps the newest 16,384
// timings.
func WriteTimings(dir string, runners []*pipeline.Runner) error {
	list := ReadTimings(dir)
	known := len(list)
	for _, r := range runners {
		for _, p := range r.Timings() {
			list = append(list, inspect.NewTiming(r.Name(), p))
		}
	}
	if len(list) == known {
		return nil
	}
	slices.SortStableFunc(list, func(a, b inspect.Timing) int { return a.Committed.Compare(b.Committed) })
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	list = list[max(0, len(list)-timingsMax):]
	list.bound()
	for _, p := range list {
		if err := encoder.Encode(p); err != nil {
			return fmt.Errorf("write %s: %w", timingsPath(dir), err)
		}
	}
	if err := replace.WriteFile(timingsPath(dir), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", timingsPath(dir), err)
	}
	return nil
}
