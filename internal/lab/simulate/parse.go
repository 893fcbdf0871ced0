package simulate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseRate parses a rate in events per second: a number, or a number with a unit such as 500/s or
// 0.5/ms.
func ParseRate(text string) (float64, error) {
	number, unit, found := strings.Cut(text, "/")
	scale, known := map[string]float64{"": 1, "s": 1, "ms": 1000, "m": 1.0 / 60}[unit]
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || found && unit == "" || rate < 0 || math.IsInf(rate, 0) || math.IsNaN(rate) {
		return 0, fmt.Errorf("rate %q: use events a second, or a number as in 500/s, 0.5/ms or 90/m", text)
	}
	return rate * scale, nil
}

// ParseService parses the duration of calls: 4ms, exponential:4ms or uniform:2ms-6ms.
func ParseService(text string) (Service, error) {
	kind, value, found := strings.Cut(text, ":")
	if !found {
		kind, value = "fixed", text
	}
	from, to, ranged := strings.Cut(value, "-")
	var s Service
	var err error
	if s.From, err = time.ParseDuration(from); err == nil && ranged {
		s.To, err = time.ParseDuration(to)
	}
	switch {
	case err != nil || s.From < 0 || ranged && s.To < s.From || ranged != (kind == "uniform"):
		err = fmt.Errorf("service %q: use a time such as 4ms, exponential:4ms or uniform:2ms-6ms", text)
	case kind == "uniform":
		s.Kind = Uniform
	case kind == "exponential":
		s.Kind = Exponential
	case kind != "fixed":
		err = fmt.Errorf("service %q: there are fixed, exponential and uniform", text)
	}
	return s, err
}

// ReadTimes reads times, one per line, and returns them sorted. A time is a number of milliseconds,
// a duration such as 4.1ms, or a moment such as 2026-11-21T21:00:00.5Z. Moments count from the
// first one. name is used in error messages.
func ReadTimes(source io.Reader, name string) ([]time.Duration, error) {
	var times []time.Duration
	var epoch time.Time
	lines := bufio.NewScanner(source)
	for line := 1; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		took, moment, ok := parseTime(text)
		if !ok {
			return nil, fmt.Errorf("%s:%d: %q is not a time: use milliseconds, a duration such as 4.1ms, or a moment such as 2026-11-21T21:00:00Z", name, line, text)
		}
		if len(times) == 0 {
			epoch = moment
		}
		if moment.IsZero() != epoch.IsZero() {
			return nil, fmt.Errorf("%s:%d: %q: the lines before it are of another kind: use moments alone, or none", name, line, text)
		}
		if !moment.IsZero() {
			took = moment.Sub(epoch)
		}
		times = append(times, took)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("%s: there is no time in it: write one a line", name)
	}
	slices.Sort(times)
	if !epoch.IsZero() {
		for i, first := 0, times[0]; i < len(times); i++ {
			times[i] -= first
		}
	}
	return times, nil
}

// timeMax is the longest duration that is accepted: a year.
const timeMax = 365 * 24 * time.Hour

func parseTime(text string) (took time.Duration, moment time.Time, ok bool) {
	if ms, err := strconv.ParseFloat(text, 64); err == nil {
		if !(ms >= 0 && ms <= timeMax.Seconds()*1000) {
			return 0, moment, false
		}
		return time.Duration(ms * float64(time.Millisecond)), moment, true
	}
	if took, err := time.ParseDuration(text); err == nil {
		return took, moment, took >= 0 && took <= timeMax
	}
	moment, err := time.Parse(time.RFC3339Nano, text)
	return 0, moment, err == nil
}

// TimesOf reads the times in a file; see ReadTimes.
func TimesOf(path string) ([]time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadTimes(file, path)
}

// ParseBurst parses the durations of full rate and pause, such as 2s/8s.
func ParseBurst(text string) (b Burst, err error) {
	on, off, _ := strings.Cut(text, "/")
	if b.On, err = time.ParseDuration(on); err == nil {
		b.Off, err = time.ParseDuration(off)
	}
	if err != nil || b.On <= 0 || b.Off <= 0 {
		return b, errors.New("use two times such as 2s/8s: how long the source comes, and how long it rests")
	}
	return b, nil
}
