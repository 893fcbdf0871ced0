package keyed

import (
	"fmt"
	"iter"
	"time"
	"unsafe"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/stream"
)

// Queue is when the keys of a partition are to be looked at. A key that has
// windows is in it for their end, and, where it outlives them, every key for its
// own: once for each, whatever its events, as who takes it out puts it back for
// the time that its newest event gives. It is in memory alone.
type Queue struct {
	terms   *Terms
	windows *due.Lane
	keys    *due.Lane // for their own end
}

// buckets is how finely the keys are put into buckets by the time of their end:
// one of them at a time takes several times the memory.
const buckets = 128

// NewQueue returns the queue of keys on these terms in the lanes of what is due, which are
// empty.
func (t *Terms) NewQueue(all *due.Queue) *Queue {
	q := &Queue{terms: t, windows: &all[due.Windows], keys: &all[due.Keys]}
	q.windows.Width = max(t.Retention/buckets, time.Second).Microseconds()
	q.keys.Width = max(t.Keep/buckets, time.Second).Microseconds()
	return q
}

// Push adds a key for the end of its windows, or of all of it, and returns when
// that is. Where no key has windows, or none is more than its windows, only the
// other end is of interest.
func (q *Queue) Push(key string, newest int64, end Ended) (at int64) {
	d, silence, matters := q.windows, q.terms.Retention, q.terms.windows()
	if end == All {
		d, silence, matters = q.keys, q.terms.Keep, q.terms.Outlives()
	}
	at = newest + silence.Microseconds()
	if matters {
		d.Push(due.Entry{At: at, Key: key})
	}
	return at
}

// Until reports whether a key is to be looked at by a watermark.
func (q *Queue) Until(watermark int64) bool {
	return q.windows.Until(watermark) || q.keys.Until(watermark)
}

// Look is a key that is to be looked at, and for which end.
type Look struct {
	due.Entry
	End Ended
}

// Pop removes keys that are to be looked at by a watermark, the first ones and at
// most as many as to holds, and returns them in it.
func (q *Queue) Pop(watermark int64, to []Look) []Look {
	n := 0
	for ; n < len(to) && q.windows.Until(watermark); n++ {
		to[n] = Look{q.windows.Pop(), Windows}
	}
	for ; n < len(to) && q.keys.Until(watermark); n++ {
		to[n] = Look{q.keys.Pop(), All}
	}
	return to[:n]
}

// Cut reports whether keys were let go that are to be looked at by a watermark:
// then Load has to find them.
func (q *Queue) Cut(watermark int64) bool {
	for _, d := range []*due.Lane{q.windows, q.keys} {
		if horizon, cut := d.Horizon(); cut && watermark >= horizon {
			return true
		}
	}
	return false
}

// Bytes returns about how much memory the queue takes.
func (q *Queue) Bytes() int64 { return q.windows.Bytes() + q.keys.Bytes() }

// Trim holds the queue to about a number of bytes. It lets go of what is farthest
// off: the ends of keys first.
func (q *Queue) Trim(bytes int64) {
	q.keys.Trim(max(0, bytes-q.windows.Bytes()))
	q.windows.Trim(max(0, bytes-q.keys.Bytes()))
}

// trimKeys is after how many keys of a scan their times are held to their limit.
const trimKeys = 4096

// Load empties the queue and pushes each of the keys whose headers of the set
// Longest a scan yields, after a byte of kind, but for those that are known, who
// calls it pushes. It holds the queue to a number of bytes.
func (q *Queue) Load(bytes int64, known func(key []byte) bool, scan iter.Seq2[stream.Entry, error]) error {
	q.windows.Reset()
	q.keys.Reset()
	n := 0
	for entry, err := range scan {
		if err != nil {
			return err
		}
		key := entry.Key[1:]
		if known(key) {
			continue
		}
		newest, err := feature.HeaderTime(entry.Value)
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		name := unsafe.String(unsafe.SliceData(key), len(key))
		if !q.terms.windowless(entry.Value) {
			q.Push(name, newest, Windows)
		}
		q.Push(name, newest, All)
		if n++; n%trimKeys == 0 {
			q.Trim(bytes)
		}
	}
	return nil
}
