package feature

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The bounds of a window.
const (
	minSize  = time.Second
	maxSize  = 366 * 24 * time.Hour
	maxPanes = 1000
)

// Window is a span of event time that ends at the event that reads it: the entries with t-Size <
// time <= t. With a Pane, the window is kept as sums of that length and drops a whole pane at a
// time. Without, it keeps every entry.
type Window struct {
	Name string        // the text before "/", used in column names: "60s"
	Size time.Duration // 1 s to 366 days, a multiple of Pane
	Pane time.Duration // 0 means exact; else Size/Pane is at most 1,000
}

// ParseWindow parses a window as the pipeline file writes it: a size, or a size and a pane
// separated by "/". Both are Go durations, which may begin with whole days: "60s", "60s/5s", "1h",
// "7d", "1d12h/1h".
func ParseWindow(text string) (Window, error) {
	size, pane, inPanes := strings.Cut(text, "/")
	w, err := parseWindow(size, pane, inPanes)
	if err != nil {
		return Window{}, fmt.Errorf("window %q: %w", text, err)
	}
	return w, nil
}

func parseWindow(size, pane string, inPanes bool) (w Window, err error) {
	w.Name = size
	if w.Size, err = parseDuration(size); err != nil {
		return w, err
	}
	if inPanes {
		if w.Pane, err = parseDuration(pane); err != nil {
			return w, err
		}
		if w.Pane == 0 {
			return w, errors.New("the pane has no length: leave out the pane for an exact window")
		}
	}
	return w, w.check()
}

func parseDuration(text string) (time.Duration, error) {
	const example = "write it as 60s, 5m, 1h or 7d"
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		number, rest = "", text
	}
	var days uint64
	var d time.Duration
	var err error
	if hasDays {
		if days, err = strconv.ParseUint(number, 10, 9); err != nil {
			return 0, fmt.Errorf("%q is not a duration: days are a whole number up to 366", text)
		}
	}
	if rest != "" || !hasDays {
		if d, err = time.ParseDuration(rest); err != nil || strings.HasPrefix(rest, "+") || d < 0 {
			return 0, fmt.Errorf("%q is not a duration: %s", text, example)
		}
	}
	if d > maxSize {
		return 0, fmt.Errorf("%q is longer than 366 days", text)
	}
	return time.Duration(days)*24*time.Hour + d, nil
}

// check returns the error of the window.
func (w Window) check() error {
	for _, r := range w.Name {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') {
			return fmt.Errorf("%q becomes part of a column's name, so use only digits and letters: write a fraction in a smaller unit", w.Name)
		}
	}
	switch {
	case w.Name == "":
		return errors.New("a window needs a name, the text of its size")
	case w.Size < minSize || w.Size > maxSize:
		return fmt.Errorf("%v is outside of 1s to 366d", w.Size)
	case w.Size%time.Microsecond != 0 || w.Pane%time.Microsecond != 0:
		return errors.New("event time has microseconds: use whole ones")
	case w.Pane == 0:
		return nil
	case w.Pane < 0 || w.Size%w.Pane != 0:
		return fmt.Errorf("%v is not a multiple of the pane %v", w.Size, w.Pane)
	case w.Size/w.Pane > maxPanes:
		return fmt.Errorf("%d panes are more than 1,000: use a longer pane", w.Size/w.Pane)
	}
	return nil
}
