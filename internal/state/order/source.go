package order

import "math"

// never is a time before each event.
const never = math.MinInt64

// Rules say how events of a source are placed. Times are microseconds.
type Rules struct {
	Lateness int64 // an event that is further behind its own source partition is late
	Wait     int64 // how long an event is waited for that is out of order in its source partition; at most Lateness
	Idle     int64 // how far a source partition that is read to its end may be behind the clock
}

// Source is how far a source partition is placed: state of its repartitioner, committed
// with the copies.
type Source struct {
	Number int32
	Next   int64 // offset of its next record
	Newest int64 // greatest event time
	Clock  int64 // what was recorded of the clock; it never goes back
}

// NewSource returns a source partition before its first record.
func NewSource(number int32) Source { return Source{Number: number, Newest: never, Clock: never} }

// Placed is what is said of an event when it is placed.
type Placed struct {
	Key    Key
	Late   bool // it is more than Lateness behind its source partition
	Forced bool // the clock had said that no such event would come: it is moved back in the order
}

// Place places an event of a time, at an offset, that was appended at another time. A time
// beyond the append moves nothing: a clock that is ahead makes no event late.
func (s *Source) Place(r Rules, offset, time, appended int64) Placed {
	time = min(time, appended)
	s.Newest = max(s.Newest, time)
	due := max(time, before(s.Newest, r.Wait))
	s.Next = offset + 1
	return Placed{
		Key:    Key{max(due, s.Clock), s.Number, offset},
		Late:   time < before(s.Newest, r.Lateness),
		Forced: s.Clock > due,
	}
}

// Silent notes that the source partition was read to its end at a time of the clock. It
// reports whether that moves its frontier.
func (s *Source) Silent(r Rules, clock int64) bool {
	at := s.Frontier(r)
	s.Clock = max(s.Clock, clock-r.Idle)
	return at.Before(s.Frontier(r))
}

// Frontier returns a key that all later events of the source are behind.
func (s *Source) Frontier(r Rules) Key {
	return Key{max(before(s.Newest, r.Wait), s.Clock), s.Number, s.Next - 1}
}

// before returns a time less a duration; never stays.
func before(time, duration int64) int64 {
	if time == never {
		return never
	}
	return time - duration
}
