package batch

import (
	"math/bits"
	"time"
)

// cost is what calls took, by the number of their rows. Who owns it guards it.
type cost struct {
	buckets [24]struct { // of calls of up to 1, 2, 4 ... rows
		known           bool
		mean, deviation time.Duration
	}
}

func bucketOf(rows int) int { return min(bits.Len(uint(max(rows, 1)-1)), 23) }

// add notes a call. Newer ones count more: an eighth of the mean, a quarter of the
// deviation, as TCP estimates how long an answer takes.
func (c *cost) add(rows int, took time.Duration) {
	b := &c.buckets[bucketOf(rows)]
	if !b.known {
		b.known, b.mean, b.deviation = true, took, took/2
		return
	}
	off := took - b.mean
	b.mean += off / 8
	b.deviation += (max(off, -off) - b.deviation) / 4
}

// of is how long a call of so many rows may well take; 0 where no call is known.
func (c *cost) of(rows int) time.Duration {
	at := bucketOf(rows)
	for i := at; i < len(c.buckets); i++ {
		if b := &c.buckets[i]; b.known {
			return b.mean + 4*b.deviation
		}
	}
	for i := at - 1; i >= 0; i-- {
		if b := &c.buckets[i]; b.known {
			return (b.mean + 4*b.deviation) << (at - i)
		}
	}
	return 0
}
