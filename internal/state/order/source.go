package order

import (
	"math"
	"slices"
)

// never is a time before each event.
const never = math.MinInt64

// Rules say how events of a source are placed. Times are microseconds.
type Rules struct {
	Lateness int64 // an event that is further behind its own source partition is late
	Wait     int64 // how long an event is waited for that is out of order in its source partition; at most Lateness
}

// Source is how far a source partition is placed: state of its repartitioner, committed
// with the copies.
type Source struct {
	Number int32
	Next   int64 // offset of its next record
	Newest int64 // greatest event time
	Silent int64 // time up to which it has no more events, by a clock; it never goes back

	// A pipeline may write a topic from several partitions that it reads. The records of each
	// of these are a source of their own.
	Writer int32 // the partition that the pipeline read; 0 where no pipeline writes the topic
	Passed int64 // watermark of the pipeline there; it never goes back
	Behind int64 // how far an event was before the time of its record, at most
}

// NewSource returns a source partition before its first record.
func NewSource(number int32) Source {
	return Source{Number: number, Newest: never, Silent: never, Passed: never}
}

// Placed is what is said of an event when it is placed.
type Placed struct {
	Key       Key
	Late      bool // it is more than Lateness behind its source partition
	Unawaited bool // it came although its source was said to be silent up to its time: readers may be past its place
}

// Place places an event of a time, at an offset, that was appended at another time. A time
// beyond the append moves nothing: a clock that is ahead makes no event late.
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

// At returns a place behind the events before an offset.
func (s *Source) At(offset int64) Key { return Key{s.Newest, s.Number, s.Writer, offset} }

// Mark returns a mark that all later events of the source are behind.
func (s *Source) Mark(r Rules) Mark {
	time := max(before(s.Newest, r.Wait), before(s.Passed, s.Behind))
	return Mark{Key{time, s.Number, s.Writer, s.Next - 1}, s.Silent}
}

// And returns a mark of two sources of one topic partition: what is said of both.
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

// before returns a time less a duration; never stays.
func before(time, duration int64) int64 {
	if time == never {
		return never
	}
	return time - duration
}

// Mark says how far a source is.
type Mark struct {
	Key    Key   // each later event of the source is behind it
	Silent int64 // time up to which the source has no more events, by a clock
}

// Skip is the mark by which a source is silent up to a time, whatever it has.
func Skip(source int32, until int64) Mark {
	return Mark{Key{Time: never, Source: source, Offset: -1}, until}
}

// NoMark is the mark of a source that says nothing.
var NoMark = Mark{First, never}

// frontiers are how far the sources of a partition are. A source that is silent is where
// the others are when it says so, as far as its clock allows: its silence holds nothing
// back, and moves time no further than events do.
type frontiers struct {
	keys []Key // by source
	most Key   // of all that is known
}

// newFrontiers returns the frontiers of sources that said nothing.
func newFrontiers(sources int) frontiers {
	return frontiers{slices.Repeat([]Key{First}, sources), First}
}

// see notes that there is an event at a key.
func (f *frontiers) see(k Key) {
	if f.most.Before(k) {
		f.most = k
	}
}

// raise takes in what a mark says of a source, and reports whether that is more.
func (f *frontiers) raise(source int, m Mark) bool {
	f.see(m.Key)
	k := f.reached(m)
	if !f.keys[source].Before(k) {
		return false
	}
	f.keys[source] = k
	return true
}

// reached returns the key that the source of a mark has reached.
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
