package due

import "sort"

// Marks are positions in a log in their order, with the watermark at each: where
// timers may fire. The zero value has none.
type Marks []mark

type mark struct {
	item      int32
	offset    int64
	watermark int64
}

// Add adds a position after the others: what it is called, its offset and the
// watermark there.
func (m *Marks) Add(item int32, offset, watermark int64) {
	*m = append(*m, mark{item, offset, watermark})
}

// First returns the first position with an offset above after at which what is
// for the time at is due.
func (m Marks) First(at, after int64) (item int32, ok bool) {
	i := sort.Search(len(m), func(i int) bool { return m[i].offset > after && m[i].watermark >= at })
	if i == len(m) {
		return 0, false
	}
	return m[i].item, true
}

// Begin returns the first offset. There is one.
func (m Marks) Begin() int64 { return m[0].offset }

// Watermark returns the last watermark. There is one.
func (m Marks) Watermark() int64 { return m[len(m)-1].watermark }
