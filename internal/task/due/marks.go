package due

import (
	"sort"

	"github.com/afterbay/afterbay/stream"
)

// Marks holds the places of a chunk where timers may fire, in their order. The zero value is empty.
type Marks struct {
	list  []Mark
	until int64 // greatest Until
}

// Mark is a place at a position of the log. It is before the event there, or before an item that is
// due there after Until. The marks of one position are in the order of Until. The mark of the event
// is the last.
type Mark struct {
	Item      int32 // index in the chunk of the item that timers fire before
	Offset    int64 // offset of the position
	Watermark int64 // watermark of the position
	Until     int64 // time of the last timer that fires before Item
}

// Reset removes all marks.
func (m *Marks) Reset() { m.list = m.list[:0] }

// Add adds a mark after the others.
func (m *Marks) Add(mark Mark) {
	if len(m.list) == 0 || mark.Until > m.until {
		m.until = mark.Until
	}
	m.list = append(m.list, mark)
}

// First returns the mark where a timer fires that was set for time at, at offset after. It is at
// the first later position with a watermark at or after the time. There it is the first mark that
// is not before the time. First returns false if the chunk has no such mark.
func (m *Marks) First(at, after int64) (mark Mark, ok bool) {
	list := m.list
	list = list[sort.Search(len(list), func(i int) bool { return list[i].Offset > after && list[i].Watermark >= at }):]
	if len(list) == 0 {
		return Mark{}, false
	}
	position := list[0].Offset
	i := sort.Search(len(list), func(i int) bool { return list[i].Offset != position || list[i].Until >= at })
	if i == len(list) || list[i].Offset != position {
		return Mark{}, false
	}
	return list[i], true
}

// Last returns the offset of the last position. There must be a mark.
func (m *Marks) Last() stream.Offset { return stream.Offset(m.list[len(m.list)-1].Offset) }

// Until returns the time of the last timer that may fire in the chunk. There must be a mark.
func (m *Marks) Until() int64 { return m.until }
