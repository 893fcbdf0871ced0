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

// Queue holds the times when the keys of a partition must be checked for expiry. A key with windows
// has an entry for their end. If keys outlive their windows, every key also has an entry for its
// own end. There is only one entry of each, however many events the key has: the check puts the key
// back for the time that its newest event gives. The queue is only in memory.
type Queue struct {
	terms   *Terms
	windows *due.Lane
	keys    *due.Lane // for the end of keys
}

// buckets is how many buckets the expiry time of keys is divided into. The entries of one bucket at
// a time take several times the memory.
const buckets = 128

// NewQueue returns the queue of keys with these terms. It uses the lanes of all, which must be
// empty.
func (t *Terms) NewQueue(all *due.Queue) *Queue {
	q := &Queue{terms: t, windows: &all[due.Windows], keys: &all[due.Keys]}
	q.windows.Width = max(t.Retention/buckets, time.Second).Microseconds()
	q.keys.Width = max(t.Keep/buckets, time.Second).Microseconds()
	return q
}

// Push adds a key for the end of its windows, or of the whole key, and returns that time. If no key
// has windows, or no key outlives its windows, only the end of the key is queued.
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

// Until reports whether a check of a key is due by a watermark.
func (q *Queue) Until(watermark int64) bool {
	return q.windows.Until(watermark) || q.keys.Until(watermark)
}

// Look is a key to check, and the kind of end to check for.
type Look struct {
	due.Entry
	End Ended
}

// Pop removes the first keys that are due by a watermark, at most as many as to holds. It returns
// them in to.
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

// Cut reports whether Trim dropped keys that are due by a watermark. The caller must then call Load
// to find them.
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

// Trim limits the queue to about a number of bytes. It drops the latest entries, the ends of keys
// first.
func (q *Queue) Trim(bytes int64) {
	q.keys.Trim(max(0, bytes-q.windows.Bytes()))
	q.windows.Trim(max(0, bytes-q.keys.Bytes()))
}

// trimKeys is how many keys of a scan are pushed between two calls of Trim.
const trimKeys = 4096

// Load empties the queue and fills it from a scan of state. The scan yields the headers of the set
// Longest, with a byte of kind before each key. Load skips known keys, because the caller pushes
// them. It limits the queue to a number of bytes.
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
