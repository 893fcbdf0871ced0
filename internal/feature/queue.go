package feature

// queue is items of a few words each that come at the end and leave at the
// front. Room freed at the front is used again before the queue grows.
type queue struct {
	words []int64
	head  int // the words before it are free
}

// live returns the words of the items, oldest first.
func (q *queue) live() []int64 { return q.words[q.head:] }

// drop removes n words at the front.
func (q *queue) drop(n int) {
	q.head += n
	if q.head == len(q.words) {
		q.words, q.head = q.words[:0], 0
	}
}

// spareEntries is how much room an empty list may keep, in words.
const spareEntries = 32

// reset drops all items.
func (q *queue) reset() {
	if cap(q.words) > spareEntries {
		q.words = nil
	}
	q.words, q.head = q.words[:0], 0
}

// push appends an item of n words, whose content is left over from others, and
// returns it.
func (q *queue) push(n int) []int64 {
	if len(q.words)+n > cap(q.words) {
		q.room(n)
	}
	end := len(q.words)
	q.words = q.words[:end+n]
	return q.words[end:]
}

// room makes room for n words more: by moving the live ones to the front where
// at least a third is free, which costs each pushed word a bounded number of
// moves; else, or where the queue was once far longer, in a new array.
func (q *queue) room(n int) {
	live := q.live()
	words := q.words[:0]
	if q.head < n || q.head < len(live)/2 || cap(words) > 8*len(live)+512 {
		words = make([]int64, 0, len(live)+max(n, (len(live)/2+n-1)/n*n))
	}
	q.words, q.head = append(words, live...), 0
}
