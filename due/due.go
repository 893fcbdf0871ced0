// Package due is a queue of keys by the event time at which they are to be
// looked at: when their windows end, or a timer may fire.
package due

// Entry is a key and a watermark, in microseconds.
type Entry struct {
	At  int64
	Key string
}

// Queue is a binary heap by (time, key). It is container/heap without the
// boxing, which cost an allocation a key. The zero value is empty.
type Queue struct{ heap []Entry }

func less(a, b *Entry) bool { return a.At < b.At || a.At == b.At && a.Key < b.Key }

// Until reports whether the first entry is at or before a watermark.
func (q *Queue) Until(watermark int64) bool { return len(q.heap) > 0 && q.heap[0].At <= watermark }

// Len returns the number of entries.
func (q *Queue) Len() int { return len(q.heap) }

// Push adds an entry.
func (q *Queue) Push(e Entry) {
	q.heap = append(q.heap, e)
	h := q.heap
	for i := len(h) - 1; i > 0 && less(&h[i], &h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// Pop removes the first entry. The queue must not be empty.
func (q *Queue) Pop() Entry {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], Entry{}
	q.heap = h[:last]
	q.down(0)
	return first
}

// Fill makes entries, in any order, the queue's.
func (q *Queue) Fill(entries []Entry) {
	q.heap = entries
	for i := len(entries)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *Queue) down(i int) {
	h := q.heap
	for {
		child := 2*i + 1
		if child+1 < len(h) && less(&h[child+1], &h[child]) {
			child++
		}
		if child >= len(h) || !less(&h[child], &h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// Over reports whether more than limit entries are at or before a watermark. It
// looks at no more than it has to.
func (q *Queue) Over(watermark int64, limit int) bool {
	return q.count(0, watermark, limit) > limit
}

func (q *Queue) count(i int, watermark int64, limit int) int {
	if i >= len(q.heap) || q.heap[i].At > watermark {
		return 0
	}
	n := 1
	for child := 2*i + 1; child <= 2*i+2 && n <= limit; child++ {
		n += q.count(child, watermark, limit-n)
	}
	return n
}
