package scaffold

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Time is the field with the event time.
type Time struct {
	Field    *Field
	Unit     string        // s, ms, us, ns or rfc3339; "" if Format is set
	Format   string        // the layout of a time that is text
	Newest   time.Time     // newest time in the sample
	Disorder time.Duration // longest time that an event is behind an earlier one
	Lateness time.Duration // Disorder rounded up, at most an hour

	at map[int32]int64   // microseconds, by event
	in func(int32) int32 // returns the partition of an event
}

// written describes the format of the time.
func (t *Time) written() string {
	if t.Format != "" {
		return "like " + t.Format + t.zone()
	}
	return "in " + t.Unit
}

// zone returns a note that the times are UTC, if they have no zone.
func (t *Time) zone() string {
	if strings.Contains(t.Format, "Z07") || strings.Contains(t.Format, "-07") || strings.Contains(t.Format, "UTC") || strings.Contains(t.Format, "GMT") {
		return ""
	}
	return " (taken as UTC)"
}

// words returns the time's format in the syntax of the pipeline file.
func (t *Time) words() string {
	if t.Format != "" {
		return fmt.Sprintf("format: %q", t.Format)
	}
	return "unit: " + t.Unit
}

// units are the units of an event time, with the number of units per second.
var units = []struct {
	name   string
	second int64
}{{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}}

// layouts are the layouts of times that are text. They also match fractions of seconds.
var layouts = func() (list []string) {
	for _, day := range []string{"2006-01-02", "2006/01/02", "2006.01.02", "02.01.2006", "02/01/2006", "01/02/2006"} {
		for _, clock := range []string{" 15:04:05", "T15:04:05", " 15:04", "T15:04"} {
			for _, zone := range []string{"", "Z0700", "Z07:00", "Z07", " Z0700", " Z07:00", " UTC"} {
				list = append(list, day+clock+zone)
			}
		}
		list = append(list, day)
	}
	return append(list, "02/Jan/2006:15:04:05 -0700", "Mon, 02 Jan 2006 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:05 -0700", "Mon Jan 02 15:04:05 -0700 2006")
}()

// timeOf returns the event times in a field, or nil if it has none.
func (f *Findings) timeOf(c *Field) *Time {
	switch c.Type.Kind {
	case value.Time:
		return f.times(&Time{Field: c, Unit: "rfc3339"}, func(v *cell) (float64, bool) { return float64(v.int), true }, 0.5)
	case value.Int, value.Number:
		for _, unit := range units {
			if t := f.times(&Time{Field: c, Unit: unit.name}, inUnit(unit.second, c.Type.Kind), 0.99); t != nil {
				return t
			}
		}
	case value.String:
		if fit := layoutsOf(c); len(fit) == 1 {
			return f.times(&Time{Field: c, Format: fit[0]}, inLayout(fit[0]), 0.5)
		}
	}
	return nil
}

// inUnit returns a function that converts a number to microseconds.
func inUnit(second int64, kind value.Kind) func(*cell) (float64, bool) {
	return func(v *cell) (float64, bool) {
		if kind == value.Int {
			return float64(v.int/max(second/1e6, 1)) * float64(1e6/min(second, 1e6)), true
		}
		return math.Round(v.number * (1e6 / float64(second))), true
	}
}

func inLayout(layout string) func(*cell) (float64, bool) {
	return func(v *cell) (float64, bool) {
		at, err := time.ParseInLocation(layout, v.text, time.UTC)
		return float64(at.UnixMicro()), err == nil
	}
}

// layoutsOf returns the layouts that match nearly all texts of a field. It returns the first one,
// or two if days and months can be exchanged.
func layoutsOf(c *Field) (fit []string) {
	if len(c.cells) == 0 || !strings.ContainsAny(c.cells[0].text, "0123456789") {
		return nil
	}
	for _, layout := range layouts {
		if len(fit) > 0 && (!strings.HasPrefix(fit[0], "02/01/") || layout != "01/02/"+fit[0][len("02/01/"):]) {
			continue
		}
		read, misfits := inLayout(layout), 0
		for i := range c.cells {
			if _, ok := read(&c.cells[i]); !ok {
				if misfits++; float64(misfits) > (1-fits)*float64(len(c.cells)) {
					break
				}
			}
		}
		if float64(misfits) <= (1-fits)*float64(len(c.cells)) {
			fit = append(fit, layout)
		}
	}
	return fit
}

// times reads a field as event times. It ignores implausible times, and returns nil if the share of
// plausible ones is too small.
func (f *Findings) times(t *Time, read func(*cell) (float64, bool), share float64) *Time {
	t.at, t.in = map[int32]int64{}, f.partition
	newest := int64(math.MinInt64)
	var disorder int64
	partition := int32(-1)
	for i := range t.Field.cells {
		v := &t.Field.cells[i]
		found, ok := read(v)
		if !ok || !value.PlausibleTime(found) {
			continue
		}
		at := int64(found)
		t.at[v.event] = at
		if f.partition(v.event) != partition {
			newest, partition = at, f.partition(v.event)
		}
		newest = max(newest, at)
		disorder = max(disorder, newest-at)
	}
	if len(t.at) == 0 || float64(len(t.at)) < share*float64(len(t.Field.cells)) {
		return nil
	}
	t.Newest = time.UnixMicro(newest).UTC()
	t.Disorder = time.Duration(disorder) * time.Microsecond
	t.Lateness = lateness[len(lateness)-1]
	for _, l := range slices.Backward(lateness) {
		if l >= t.Disorder {
			t.Lateness = l
		}
	}
	return t
}

// lateness are the values to choose a lateness from.
var lateness = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
}

// OddTime names a field that looks like the event time but cannot be read as one, or is outside the
// years 2000 to 2100. It returns "" if there is no such field, or if another field is the event
// time.
func (f *Findings) OddTime() string {
	if f.Time != nil {
		return ""
	}
	for _, c := range f.Fields {
		if text := c.oddTime(); c.Left == "" && len(c.cells) > 0 && text != "" {
			return c.Name + text
		}
	}
	return ""
}

func (c *Field) oddTime() string {
	named := slices.ContainsFunc(words(c.Name), func(word string) bool { return slices.Contains(timeWords, word) })
	switch {
	case len(c.cells) == 0:
	case c.Type.Kind == value.Time:
		return fmt.Sprintf(" is not an event time: most of its times are before 2000 or after 2100, such as %s", c.Example)
	case c.Type.Kind == value.String && len(layoutsOf(c)) > 1:
		fit := layoutsOf(c)
		return fmt.Sprintf(" may have the day or the month first: add format: %q or %q to the time", fit[0], fit[1])
	case c.Type.Kind == value.String && len(layoutsOf(c)) == 1:
		return fmt.Sprintf(" is not an event time: most of its times are before 2000 or after 2100, such as %s", c.Example)
	case c.Type.Kind == value.String && dateLike.MatchString(c.common()[0]):
		return fmt.Sprintf(" looks like a time that init cannot read, such as %s: time: {format: ...} takes a layout", c.Example)
	case named && (c.Type.Kind == value.Int || c.Type.Kind == value.Number):
		v := c.cells[0].number
		return fmt.Sprintf(" is not an event time: %s is %s in s, %s in ms, and most of its times are before 2000 or after 2100 in any unit", cmp.Or(c.Example, "0"), value.TimeText(v*1e6), value.TimeText(v*1e3))
	}
	return ""
}
