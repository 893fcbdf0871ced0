package feature

// queue is a FIFO of items of a few words each. It reuses the room freed at the front before it
// grows.
type queue struct {
	words []int64
	head  int // the words before head are free
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

// spareEntries is the capacity that an empty list may keep, in words.
const spareEntries = 32

// reset drops all items.
func (q *queue) reset() {
	if cap(q.words) > spareEntries {
		q.words = nil
	}
	q.words, q.head = q.words[:0], 0
}

// push appends an item of n words and returns it. The words keep old content: the caller must set
// them.
func (q *queue) push(n int) []int64 {
	if len(q.words)+n > cap(q.words) {
		q.room(n)
	}
	end := len(q.words)
	q.words = q.words[:end+n]
	return q.words[end:]
}

// room makes room for n more words. If at least a third is free, it moves the live words to the
// front, which costs each pushed word a bounded number of moves. Otherwise, or if the queue was
// once far longer, it allocates a new array.
func (q *queue) room(n int) {
	live := q.live()
	words := q.words[:0]
	if q.head < n || q.head < len(live)/2 || cap(words) > 8*len(live)+512 {
		words = make([]int64, 0, len(live)+max(n, (len(live)/2+n-1)/n*n))
	}
	q.words, q.head = append(words, live...), 0
}
