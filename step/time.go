package step

import (
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/value"
)

// EventTime says when an event happened: what a field says, or else when the
// record was appended.
type EventTime struct {
	FromField bool
	Slot      value.Slot
	Unit      time.Duration // of an int field; 0 for a field of kind time
	MaxAhead  time.Duration // of the append that a field's time may be
}

// Timing says where the event time stands, and what late events become.
type Timing struct {
	EventTime
	Lateness time.Duration
	Idle     time.Duration // without an event, after which time goes on with the clock; 0 is never
	Appended bool          // the time is that of the append, and nothing says what is late: only what a pipeline wrote can be

	Late       LatePolicy
	LateOutput int // among the topics written, of LateTopic
}

// Meta are the names meta.*.
type Meta struct {
	ID, Key, Time, Partition, Offset value.Slot
	Topic                            *value.Slot // the source; nil where nothing is copied
}

// Event times that fit time.Duration arithmetic in nanoseconds.
const timeMax, timeMin = math.MaxInt64 / 1000, -timeMax

// Of returns the time of the event of a row, in microseconds since 1970. It is
// an error where the field's time is outside the years 1678 to 2261, or more
// than MaxAhead after the record was appended.
func (t *EventTime) Of(row *value.Row, appended time.Time) (int64, error) {
	if !t.FromField {
		return appended.UnixMicro(), nil
	}
	v := row.Int(t.Slot)
	if t.Unit != 0 {
		perUnit, perMicro := int64(t.Unit/time.Microsecond), int64(time.Microsecond/max(t.Unit, 1))
		switch {
		case perUnit == 0:
			v /= perMicro
		case v > math.MaxInt64/perUnit/2 || v < math.MinInt64/perUnit/2:
			return 0, fmt.Errorf("time %d is out of range", v)
		default:
			v *= perUnit
		}
	}
	if v < timeMin || v > timeMax {
		return 0, fmt.Errorf("time %d us is outside the years 1678 to 2261", v)
	}
	if ahead := v - appended.UnixMicro(); ahead > t.MaxAhead.Microseconds() {
		return 0, fmt.Errorf("event time is %v after the record was appended; max_ahead is %v", time.Duration(min(ahead, timeMax))*time.Microsecond, t.MaxAhead)
	}
	return v, nil
}

// LatePolicy is what becomes of an event before the watermark.
type LatePolicy uint8

// The policies of `late`.
const (
	LateDead    LatePolicy = iota // a dead letter
	LateDrop                      // left out, and counted
	LateInclude                   // as if it were on time
	LateTopic                     // written to a topic as it came
)
