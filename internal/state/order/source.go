package order

import (
	"math"
	"slices"
)

// never is a time before every event.
const never = math.MinInt64

// Rules configures the placement of a source's events. Times are microseconds.
type Rules struct {
	Lateness int64 // an event that is further behind its own source partition is late
	Wait     int64 // how long to wait for an event that is out of order in its source partition; at most Lateness
}

// Source is the progress of placement in a source partition. It is state of the repartitioner and
// committed with the copies.
type Source struct {
	Number int32
	Next   int64 // offset of its next record
	Newest int64 // greatest event time
	Silent int64 // by a clock, the source has no more events until this time; never decreases

	// A pipeline may write a topic from several partitions that it reads. The records from each of
	// these are a separate source.
	Writer int32 // the partition that the pipeline read; 0 if no pipeline writes the topic
	Passed int64 // watermark of the pipeline there; never decreases
	Behind int64 // longest time from an event to the time of its record
}

// NewSource returns a source partition before its first record.
func NewSource(number int32) Source {
	return Source{Number: number, Newest: never, Silent: never, Passed: never}
}

// Placed is the result of placing an event.
type Placed struct {
	Key       Key
	Late      bool // more than Lateness behind its source partition
	Unawaited bool // it came although its source was said to be silent up to its time; readers may have passed its place
}

// Place places the event at offset, with its time and append time. A time after the append counts
// as the append time, so a fast clock makes no event late.
func (s *Source) Place(r Rules, offset, time, appended int64) Placed {
	time = min(time, appended)
	s.Newest, s.Behind = max(s.Newest, time), max(s.Behind, appended-time)
	s.Next = offset + 1
	turn := max(time, before(s.Newest, r.Wait))
	return Placed{
		Key:  Key{turn, s.Number, s.Writer, offset},
		Late: time < before(s.Newest, r.Lateness), Unawaited: turn <= s.Silent,
	}
}

// At returns a key after all events before offset.
func (s *Source) At(offset int64) Key { return Key{s.Newest, s.Number, s.Writer, offset} }

// Mark returns a mark: all later events of the source are after it.
func (s *Source) Mark(r Rules) Mark {
	time := max(before(s.Newest, r.Wait), before(s.Passed, s.Behind))
	return Mark{Key{time, s.Number, s.Writer, s.Next - 1}, s.Silent}
}

// And combines the marks of two sources of one topic partition. The result holds for both.
func (m Mark) And(other Mark) Mark {
	silent := min(max(m.Silent, m.Key.Time), max(other.Silent, other.Key.Time))
	if other.Key.Before(m.Key) {
		m.Key = other.Key
	}
	if m.Silent = silent; silent <= m.Key.Time {
		m.Silent = never
	}
	return m
}

// before returns time minus duration; never stays never.
func before(time, duration int64) int64 {
	if time == never {
		return never
	}
	return time - duration
}

// Mark is the progress of a source.
type Mark struct {
	Key    Key   // each later event of the source has a greater key
	Silent int64 // time up to which the source has no more events, by a clock
}

// Skip returns a mark that declares a source silent up to a time, whatever events it has.
func Skip(source int32, until int64) Mark {
	return Mark{Key{Time: never, Source: source, Offset: -1}, until}
}

// NoMark is the mark of a source that has reported nothing.
var NoMark = Mark{First, never}

// frontiers is the progress of the sources of a partition. A silent source counts as being where
// the others are when it reports its silence, up to its clock. So a silent source does not block
// others, and does not advance time further than events do.
type frontiers struct {
	keys []Key // by source
	most Key   // greatest known key
}

// newFrontiers returns the frontiers of sources that have reported nothing.
func newFrontiers(sources int) frontiers {
	return frontiers{slices.Repeat([]Key{First}, sources), First}
}

// see records that an event has key k.
func (f *frontiers) see(k Key) {
	if f.most.Before(k) {
		f.most = k
	}
}

// raise applies a mark of a source and reports whether its frontier advanced.
func (f *frontiers) raise(source int, m Mark) bool {
	f.see(m.Key)
	k := f.reached(m)
	if !f.keys[source].Before(k) {
		return false
	}
	f.keys[source] = k
	return true
}

// reached returns the key that a source has reached according to its mark.
func (f *frontiers) reached(m Mark) Key {
	k := m.Key
	if m.Silent != never {
		silent := Key{Time: m.Silent, Source: m.Key.Source, Offset: m.Key.Offset}
		if f.most.Before(silent) {
			silent = f.most
		}
		if k.Before(silent) {
			k = silent
		}
	}
	return k
}
