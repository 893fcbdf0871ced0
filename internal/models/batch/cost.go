package batch

import (
	"math/bits"
	"time"
)

// cost estimates the duration of calls, by their number of rows. Its owner synchronises access.
type cost struct {
	buckets [24]struct { // for calls of up to 1, 2, 4 ... rows
		known           bool
		mean, deviation time.Duration
	}
}

func bucketOf(rows int) int { return min(bits.Len(uint(max(rows, 1)-1)), 23) }

// add records a call. Newer calls count more: an eighth of the mean, a quarter of the deviation, as
// TCP estimates round-trip times.
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

// of returns an upper estimate for the duration of a call with this many rows; 0 if no call was
// recorded.
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
