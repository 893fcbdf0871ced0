package embedded

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// TestSparesAreFilledAtThePaceOfTheLog counts what is written to the spare being
// made, after each append: never a step more than a third ahead of the segment
// that is written, and it is ready before that one is full.
func TestSparesAreFilledAtThePaceOfTheLog(t *testing.T) {
	const steps = 16 // of a spare
	var mu sync.Mutex
	written := 0 // to the newest spare
	fs := vfs.Faulty(vfs.NewMemory(), func(c vfs.Call) (o vfs.Outcome) {
		if strings.HasSuffix(c.Path, spareSuffix+halfSuffix) {
			mu.Lock()
			defer mu.Unlock()
			switch c.Kind {
			case vfs.Create:
				written = 0
			case vfs.Write:
				written++
			}
		}
		return o
	})
	o := small(fs)
	o.SegmentBytes, o.MaxFrameBytes = steps*fillBytes, 1<<20
	l := newLog(t, o)
	eventually(t, "spares", func() bool { return l.Stats().Spares == spareFiles })
	value := strings.Repeat("v", 60_000)
	newest := func() int {
		mu.Lock()
		defer mu.Unlock()
		return written
	}
	for range 3 * steps * fillBytes / len(value) {
		appendValues(t, l, events, value)
		l.mu.Lock()
		s := l.segments[len(l.segments)-1]
		used, begun := float64(s.end)/float64(s.size), len(l.segments) > 1
		l.mu.Unlock()
		if !begun {
			continue // both spares are there
		}
		due := min(steps, int(math.Ceil(used*4/3*steps)))
		eventually(t, fmt.Sprintf("%d of %d steps where the segment is %.2f full", due, steps, used), func() bool { return newest() == due })
		eventually(t, "a spare", func() bool { return due < steps || l.Stats().Spares == spareFiles })
	}
	if n := l.Stats().Segments; n < 3 {
		t.Fatalf("%d segments", n)
	}
}

// TestCloseLeavesNoUnfinishedSpare closes a log in the middle of one.
func TestCloseLeavesNoUnfinishedSpare(t *testing.T) {
	fs := vfs.NewMemory()
	o := small(fs)
	o.SegmentBytes, o.MaxFrameBytes = 4*fillBytes, 1<<19
	l := newLog(t, o)
	eventually(t, "spares", func() bool { return l.Stats().Spares == spareFiles })
	value := strings.Repeat("v", 60_000)
	for l.Stats().Segments == 1 {
		appendValues(t, l, events, value)
	}
	half := func() bool {
		names, err := fs.List("data/log")
		return err == nil && strings.Contains(strings.Join(names, " "), halfSuffix)
	}
	appendValues(t, l, events, value)
	eventually(t, "an unfinished spare", half)
	if err := l.Close(); err != nil || half() {
		t.Fatalf("an unfinished spare is left: %v, %v", half(), err)
	}
}
