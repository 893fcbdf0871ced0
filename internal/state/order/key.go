// Package order merges the events of several source partitions into one order. The order depends
// only on these partitions. Repartitioners, members, commits and crashes do not affect it.
//
//  1. A repartitioner gives each event a [Key]: its order time, source and offset.
//     The order time depends on the source partition up to the event, and on the
//     clock readings recorded while that partition was silent.
//  2. A [Mark] is a frontier: each later event of that source has a greater key.
//  3. A [Merger] releases the event with the least key as soon as the frontiers of
//     all sources have reached it. So it releases the events of a partition in the
//     order of their keys.
//
// Times are microseconds since 1970.
package order

import (
	"cmp"
	"math"
)

// Key is the place of an event in the order.
type Key struct {
	Time   int64 // order time
	Source int32 // number of the source partition
	Writer int32 // in a topic that a pipeline writes: the partition that the pipeline read; otherwise 0
	Offset int64 // in the source partition
}

// First is before every key of an event, and Last after every key.
var (
	First = Key{math.MinInt64, math.MinInt32, math.MinInt32, math.MinInt64}
	Last  = Key{math.MaxInt64, math.MaxInt32, math.MaxInt32, math.MaxInt64}
)

// Compare returns -1, 0 or 1 if k is before, equal to or after other.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Time, other.Time), cmp.Compare(k.Source, other.Source), cmp.Compare(k.Writer, other.Writer), cmp.Compare(k.Offset, other.Offset))
}

// previous returns the greatest key before k.
func (k Key) previous() Key { return Key{k.Time, k.Source, k.Writer, k.Offset - 1} }

// Before reports whether k is before other.
func (k Key) Before(other Key) bool {
	if k.Time != other.Time {
		return k.Time < other.Time
	}
	if k.Source != other.Source {
		return k.Source < other.Source
	}
	if k.Writer != other.Writer {
		return k.Writer < other.Writer
	}
	return k.Offset < other.Offset
}
