package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
)

const Day = 24 * time.Hour

// ParseDuration reads a Go duration that may start with whole days: 1d12h.
func ParseDuration(text string) (time.Duration, bool) {
	count, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	days, err := strconv.ParseUint(count, 10, 16) // 16 bits: at most 65,535 days
	if err != nil {
		return 0, false
	}
	var more time.Duration
	if rest != "" {
		if more, err = time.ParseDuration(rest); err != nil || more < 0 || more >= Day || rest[0] == '+' || rest[0] == '-' {
			return 0, false
		}
	}
	return time.Duration(days)*Day + more, true
}

// FormatDuration writes a duration in the shortest form that ParseDuration reads.
func FormatDuration(d time.Duration) string {
	if d >= Day && d%Day == 0 {
		return strconv.Itoa(int(d/Day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// sizes are the units of a size, the longest names first.
var sizes = []struct {
	name  string
	bytes int
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// ParseSize reads a whole number of bytes, or of a unit: 512, 64KiB, 10MB.
func ParseSize(text string) (int, bool) {
	unit := 1
	for _, s := range sizes {
		if digits, ok := strings.CutSuffix(text, s.name); ok {
			text, unit = strings.TrimRight(digits, " "), s.bytes
			break
		}
	}
	count, err := strconv.ParseUint(text, 10, 63)
	if err != nil || count > uint64(math.MaxInt/unit) {
		return 0, false
	}
	return int(count) * unit, true
}

func formatSize(bytes int) string {
	for _, s := range []int{2, 1, 0} {
		if unit := sizes[s]; bytes >= unit.bytes && bytes%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", bytes/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// alternatives writes "a, b or c".
func alternatives(names []string) string { return Listed(names, "or") }

// Listed writes "a, b and c", with a word before the last name.
func Listed(names []string, word string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// suggest returns a hint for an unknown word: a known word with a similar spelling, or all
// implemented words.
func suggest[T any](text string, built []string, known []Field[T]) string {
	all := make([]string, len(known))
	for i, w := range known {
		all[i] = w.Name
	}
	if near := Nearest(text, all); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "write " + alternatives(built)
}

// Nearest returns the name with the most similar spelling. It returns "" if no name is close, or if
// text is too long to be a name.
func Nearest(text string, names []string) string {
	if len(text) > 64 {
		return ""
	}
	return expression.Nearest(strings.ToLower(text), names)
}
