package operator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

// TimeSample checks the first times of a field. If most are before 2000 or after 2100, a wrong unit
// is the most likely cause. Members share it.
type TimeSample struct {
	open atomic.Bool

	mu        sync.Mutex // guards the fields below
	warn      func(finding string)
	seen, odd int
	example   string
	told      bool
}

const (
	timesMin = 3    // odd times that suffice for a finding
	timesMax = 1000 // times that are checked
)

// NewTimeSample returns a sample that calls warn once if its times are odd.
func NewTimeSample(warn func(finding string)) *TimeSample {
	s := &TimeSample{warn: warn}
	s.open.Store(true)
	return s
}

// units lists the units of event times, the more likely first.
var units = []struct {
	Name string
	time.Duration
}{{"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond}}

// note adds a time to the sample.
func (s *TimeSample) note(t *EventTime, row *value.Row, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen++; !value.PlausibleTime(float64(at)) {
		if s.odd++; s.odd == 1 {
			s.example = t.example(row, at)
		}
	}
	if s.seen >= timesMax || s.odd >= timesMin && 2*s.odd > s.seen {
		s.open.Store(false)
		s.tell()
	}
}

// Close ends the sample.
func (s *TimeSample) Close() {
	if s != nil && s.open.CompareAndSwap(true, false) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell()
	}
}

func (s *TimeSample) tell() {
	if text := s.finding(); text != "" && !s.told && s.warn != nil {
		s.told = true
		s.warn(text)
	}
}

// Finding returns a finding about the times, or "" if they look valid.
func (s *TimeSample) Finding() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finding()
}

func (s *TimeSample) finding() string {
	if 2*s.odd <= s.seen {
		return ""
	}
	return fmt.Sprintf("%d of the first %d event times are before 2000 or after 2100, such as %s", s.odd, s.seen, s.example)
}

// example describes a row's odd time, and the time that another unit would give.
func (t *EventTime) example(row *value.Row, at int64) string {
	if t.Unit == 0 {
		return fmt.Sprintf("%s of the field %s", value.TimeText(float64(at)), t.Slot.Name)
	}
	v, written := float64(row.Int(t.Slot)), fmt.Sprint(row.Int(t.Slot))
	if t.Slot.Type.Kind == value.Number {
		v, written = row.Number(t.Slot), fmt.Sprint(row.Number(t.Slot))
	}
	unit := ""
	for _, u := range units {
		if u.Duration == t.Unit {
			unit = u.Name
		}
	}
	text := fmt.Sprintf("%s: %s in %s is %s", t.Slot.Name, written, unit, value.TimeText(v*float64(t.Unit)/float64(time.Microsecond)))
	for _, u := range units {
		if at := v * float64(u.Duration) / float64(time.Microsecond); value.PlausibleTime(at) {
			return fmt.Sprintf("%s; in %s it is %s: write unit: %s", text, u.Name, value.TimeText(at), u.Name)
		}
	}
	return text
}
