// Package term writes lines and progress to terminals.
package term

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	about, err := file.Stat()
	if err != nil || about.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(about, null)
}

// Meter shows progress on one line that it replaces.
type Meter struct {
	out   io.Writer
	start time.Time
	shown time.Time
	drawn bool
	plain bool // out is not a terminal: lines are not replaced
}

// MeterEvery is the minimum time between two updates on a terminal.
const MeterEvery = 200 * time.Millisecond

const meterEveryPlain = 5 * time.Second

// NewMeter returns a meter that starts now.
func NewMeter(out io.Writer) *Meter {
	m := &Meter{out: out, start: time.Now(), plain: !Is(out)}
	m.shown = m.start
	return m
}

// Show prints the line if the last one is at least MeterEvery old, or 5 s if out is not a terminal.
func (m *Meter) Show(format string, args ...any) {
	every := MeterEvery
	if m.plain {
		every = meterEveryPlain
	}
	if time.Since(m.shown) < every {
		return
	}
	m.shown, m.drawn = time.Now(), true
	if m.plain {
		fmt.Fprintf(m.out, format+"\n", args...)
	} else {
		fmt.Fprintf(m.out, "\r\x1b[K"+format, args...)
	}
}

// Clear removes the line from a terminal.
func (m *Meter) Clear() {
	if m.drawn && !m.plain {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}

// Elapsed returns the time since the meter started.
func (m *Meter) Elapsed() time.Duration { return time.Since(m.start).Round(time.Millisecond) }

// Rate returns n per second since the meter started, as text.
func (m *Meter) Rate(n int64) string {
	return fmt.Sprintf("%.0f/s", float64(n)/max(time.Since(m.start).Seconds(), 1e-3))
}

// Lines writes lines to a stream.
type Lines struct {
	out  *bufio.Writer
	each bool // show each line at once
}

// NewLines returns a writer of lines. With each it shows every line at once.
func NewLines(out io.Writer, each bool) *Lines {
	return &Lines{bufio.NewWriterSize(out, 64<<10), each}
}

// Write writes a line.
func (l *Lines) Write(line []byte) error {
	if _, err := l.out.Write(line); err != nil {
		return err
	}
	if err := l.out.WriteByte('\n'); err != nil || !l.each {
		return err
	}
	return l.out.Flush()
}

// Close shows all lines that are still buffered.
func (l *Lines) Close() error { return l.out.Flush() }

// Counted returns a count with a noun: 1 file, 2 files.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Counts lists counts by name, the largest first.
func Counts(counts map[string]int) string {
	if len(counts) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}
