package operator

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// EventTime determines the time of an event: the value of a field, or else the append time of the
// record.
type EventTime struct {
	FromField bool
	Slot      value.Slot
	Unit      time.Duration // unit of an int or number field; 0 for a field of kind time or string
	Layout    string        // layout of a string field, as in package time; a layout without a zone is UTC
	MaxAhead  time.Duration // most time that a field's time may be after the append
}

// Timing determines the event time, the watermark, and the handling of late events.
type Timing struct {
	EventTime
	Lateness time.Duration
	Idle     time.Duration // time without an event after which the watermark advances with the clock; 0 is never
	Appended bool          // the time is the append time and the file has no policy for late events: only records of a pipeline can be late

	Late       LatePolicy
	LateOutput int // for LateTopic: index of the topic among the outputs
}

// Event times that fit time.Duration arithmetic in nanoseconds.
const timeMax, timeMin = math.MaxInt64 / 1000, -timeMax

// CheckAppended returns an error if the append time of a record cannot be an event time. The
// producer of a record can set any append time.
func CheckAppended(at time.Time) error {
	if us := at.UnixMicro(); us < timeMin || us > timeMax {
		return fmt.Errorf("the time of its append is outside the years 1678 to 2261: %d us", us)
	}
	return nil
}

// Of returns the time of the event of a row, in microseconds since 1970. It returns an error if the
// field's time is outside the years 1678 to 2261, or more than MaxAhead after the record was
// appended. A sample records the field's time; a nil sample does not.
func (t *EventTime) Of(row *value.Row, appended time.Time, sample *TimeSample) (int64, error) {
	if !t.FromField {
		return appended.UnixMicro(), nil
	}
	v, err := t.read(row)
	if sample != nil && sample.open.Load() && (err == nil || t.Layout == "") {
		sample.note(t, row, v)
	}
	if err != nil {
		return 0, err
	}
	if ahead := v - appended.UnixMicro(); ahead > t.MaxAhead.Microseconds() {
		return 0, fmt.Errorf("event time is %v after the record was appended; max_ahead is %v", time.Duration(min(ahead, timeMax))*time.Microsecond, t.MaxAhead)
	}
	return v, nil
}

// read returns the time of the field. If the time is out of range, it returns the nearer bound and
// an error.
func (t *EventTime) read(row *value.Row) (int64, error) {
	switch {
	case t.Layout != "":
		return t.parse(row.Text(t.Slot))
	case t.Slot.Type.Kind == value.Number:
		at := row.Number(t.Slot) * (float64(t.Unit) / float64(time.Microsecond))
		if math.Abs(at) > timeMax {
			return int64(math.Copysign(timeMax, at)), fmt.Errorf("time %v is outside the years 1678 to 2261", row.Number(t.Slot))
		}
		return int64(math.Round(at)), nil
	}
	v := row.Int(t.Slot)
	if t.Unit != 0 {
		perUnit, perMicro := int64(t.Unit/time.Microsecond), int64(time.Microsecond/max(t.Unit, 1))
		switch {
		case perUnit == 0:
			v /= perMicro
		case v > math.MaxInt64/perUnit/2:
			return timeMax, fmt.Errorf("time %d is out of range", v)
		case v < math.MinInt64/perUnit/2:
			return timeMin, fmt.Errorf("time %d is out of range", v)
		default:
			v *= perUnit
		}
	}
	if v < timeMin || v > timeMax {
		return max(timeMin, min(v, timeMax)), fmt.Errorf("time %d us is outside the years 1678 to 2261", v)
	}
	return v, nil
}

// parse parses a time of the layout.
func (t *EventTime) parse(text string) (int64, error) {
	at, err := time.ParseInLocation(t.Layout, text, time.UTC)
	if err != nil {
		if len(text) > 40 {
			text = text[:40] + "..."
		}
		return 0, fmt.Errorf("%s is %q: not a time like %q", t.Slot.Name, text, t.Layout)
	}
	if at.Year() < 1678 || at.Year() > 2261 {
		return timeMin, fmt.Errorf("time %s is outside the years 1678 to 2261", text)
	}
	return at.UnixMicro(), nil
}

// CheckLayout returns an error if times cannot be parsed by a layout. A layout must have year,
// month and day, and may state a zone only by its offset.
func CheckLayout(layout string) error {
	at := time.Date(2024, 3, 5, 17, 8, 9, 0, time.UTC)
	back, err := time.ParseInLocation(layout, at.Format(layout), time.UTC)
	switch {
	case strings.Contains(layout, "MST"):
		return errors.New("the name of a zone does not define its offset: use -0700 or Z07:00 instead of MST, or the word UTC")
	case err != nil || back.Format(time.DateOnly) != at.Format(time.DateOnly):
		return fmt.Errorf("%q is not a layout of a date: write 2 January 2006, 15:04:05, zone -0700, in the format of the events, such as 2006-01-02 15:04:05", layout)
	}
	for _, d := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if back.Equal(at.Truncate(d)) {
			return nil
		}
	}
	return fmt.Errorf("%q has no complete time of day: write 15 for the hour of 24, or 03 with PM", layout)
}

// LatePolicy says what happens to an event before the watermark.
type LatePolicy uint8

// The policies of `late`.
const (
	LateDead    LatePolicy = iota // it becomes a dead letter
	LateDrop                      // it is dropped and counted
	LateInclude                   // it is processed as if it were on time
	LateTopic                     // its record is written unchanged to a topic
)
