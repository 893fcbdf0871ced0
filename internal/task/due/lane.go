package due

// Entry is a key and a watermark, in microseconds.
type Entry struct {
	At  int64
	Key string
}

// Lane is a queue of entries by (time, key). The entries that are due next are in a binary heap. It
// works like container/heap without the boxing, which cost an allocation per key. Most entries are
// later. They are stored as bytes in buckets by time, unsorted, and take about four bytes more than
// the key each. The zero value is empty.
type Lane struct {
	// Width is the time span of a bucket, in microseconds; 0 is a minute. It must not change after
	// the first Push.
	Width int64

	heap    []Entry // entries before edge
	edge    int64   // a multiple of the width, once a watermark was seen
	begun   bool    // a watermark was seen
	buckets buckets // entries from edge on
	cut     bool    // entries from horizon on were dropped
	horizon int64
}

func less(a, b *Entry) bool { return a.At < b.At || a.At == b.At && a.Key < b.Key }

// Until reports whether the first entry is at or before a watermark.
func (q *Lane) Until(watermark int64) bool {
	q.advance(watermark)
	return len(q.heap) > 0 && q.heap[0].At <= watermark
}

// First returns the first entry at or before a watermark. There must be one: see Until.
func (q *Lane) First() Entry { return q.heap[0] }

// Len returns the number of entries.
func (q *Lane) Len() int { return len(q.heap) + q.buckets.count }

// Bytes returns about how much memory the entries take.
func (q *Lane) Bytes() int64 { return int64(cap(q.heap))*entryBytes + q.buckets.bytes }

// entryBytes is the size of an entry of the heap without its key. The key is often in memory
// anyway.
const entryBytes = 24

// Push adds an entry, unless Trim would drop it.
func (q *Lane) Push(e Entry) {
	switch {
	case q.cut && e.At >= q.horizon:
	case q.begun && e.At < q.edge:
		q.push(e)
	default:
		q.buckets.add(floor(e.At, q.width()), q.width(), e)
	}
}

func (q *Lane) width() int64 {
	if q.Width == 0 {
		return 60_000_000
	}
	return q.Width
}

// floor returns a divided by b, rounded down.
func floor(a, b int64) int64 {
	n := a / b
	if a%b < 0 {
		n--
	}
	return n
}

// advance moves the entries of the buckets up to a watermark into the heap.
func (q *Lane) advance(watermark int64) {
	if q.begun && watermark < q.edge {
		return
	}
	last := floor(watermark, q.width())
	q.begun, q.edge = true, (last+1)*q.width()
	for len(q.buckets.list) > 0 && q.buckets.list[0].number <= last {
		q.buckets.takeFirst(q.width(), q.push)
	}
}

func (q *Lane) push(e Entry) {
	q.heap = append(q.heap, e)
	h := q.heap
	for i := len(h) - 1; i > 0 && less(&h[i], &h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// Pop removes the first entry. The queue must not be empty.
func (q *Lane) Pop() Entry {
	if len(q.heap) == 0 {
		q.advance(q.buckets.list[0].number * q.width())
	}
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], Entry{}
	if q.heap = h[:last]; cap(h) > 1024 && last < cap(h)/4 {
		q.heap = append(make([]Entry, 0, cap(h)/2), h[:last]...)
	}
	q.down(0)
	return first
}

func (q *Lane) down(i int) {
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

// Over reports whether more than limit entries are at or before a watermark. It visits no more
// entries than it needs.
func (q *Lane) Over(watermark int64, limit int) bool {
	q.advance(watermark)
	return q.count(0, watermark, limit) > limit
}

func (q *Lane) count(i int, watermark int64, limit int) int {
	if i >= len(q.heap) || q.heap[i].At > watermark {
		return 0
	}
	n := 1
	for child := 2*i + 1; child <= 2*i+2 && n <= limit; child++ {
		n += q.count(child, watermark, limit-n)
	}
	return n
}

// Trim drops the latest entries, whole buckets at a time, until the queue takes at most the given
// bytes or one bucket is left. From then on, until Reset, Push ignores entries from the Horizon on.
func (q *Lane) Trim(bytes int64) {
	for n := len(q.buckets.list) - 1; n > 0 && q.Bytes() > bytes; n-- {
		q.cut, q.horizon = true, q.buckets.list[n].number*q.width()
		q.buckets.dropLast()
	}
}

// Horizon returns the time of the earliest entry that Trim may have dropped. ok is false if it
// dropped no entry.
func (q *Lane) Horizon() (at int64, ok bool) { return q.horizon, q.cut }

// Reset empties the queue. It keeps the Width.
func (q *Lane) Reset() { *q = Lane{Width: q.Width} }
