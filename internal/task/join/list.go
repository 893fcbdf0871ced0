package join

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// list is a sorted list of rows in chunks. No chunk is empty. An insertion or a removal moves only
// the rows of one chunk.
type list [][]*row

const chunkMax = 512

// byPlace compares by place.
func byPlace(a, b *row) int {
	return cmp.Or(a.compare(&b.place), cmp.Compare(a.offset, b.offset))
}

// byBest compares left rows by the place of their best right row.
func byBest(a, b *row) int { return cmp.Or(a.best.compare(b.best), byPlace(a, b)) }

// first returns the first row, or nil if the list is empty.
func (l list) first() *row {
	if len(l) == 0 {
		return nil
	}
	return l[0][0]
}

// find returns the index of the first row that is reached, or else the end of the last chunk. All
// rows after a reached row must be reached too.
func (l list) find(reached func(*row) bool) (chunk, at int) {
	chunk = sort.Search(len(l), func(i int) bool { return reached(l[i][len(l[i])-1]) })
	if chunk == len(l) {
		return len(l) - 1, len(l[len(l)-1])
	}
	return chunk, sort.Search(len(l[chunk]), func(i int) bool { return reached(l[chunk][i]) })
}

// since yields the rows that are reached: the first one and all rows after it. The list must not
// change during the iteration.
func (l list) since(reached func(*row) bool) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		if len(l) == 0 {
			return
		}
		for chunk, at := l.find(reached); chunk < len(l); chunk, at = chunk+1, 0 {
			for _, r := range l[chunk][at:] {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// insert adds a row.
func (l *list) insert(r *row, order func(a, b *row) int) {
	if len(*l) == 0 {
		*l = list{{r}}
		return
	}
	chunk, at := l.find(func(o *row) bool { return order(o, r) >= 0 })
	rows := slices.Insert((*l)[chunk], at, r)
	if (*l)[chunk] = rows; len(rows) > chunkMax {
		half := len(rows) / 2
		*l = slices.Insert(*l, chunk+1, slices.Clone(rows[half:]))
		clear(rows[half:])
		(*l)[chunk] = rows[:half]
	}
}

// remove removes a row of the list.
func (l *list) remove(r *row, order func(a, b *row) int) {
	chunk, at := l.find(func(o *row) bool { return order(o, r) >= 0 })
	if (*l)[chunk] = slices.Delete((*l)[chunk], at, at+1); len((*l)[chunk]) == 0 {
		*l = slices.Delete(*l, chunk, chunk+1)
	}
}
