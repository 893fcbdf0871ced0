package kafka

import (
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// follower applies a changelog to a copy.
type follower struct {
	who       any
	copied    *local
	changelog stream.Partition
	next      int64 // next offset to read
	replay    *replay
	changes   [][2][]byte
	parts     map[string]int
}

// newFollower returns a follower that applies the changelog to copied from next on.
func newFollower(who any, copied *local, changelog stream.Partition, next int64) *follower {
	f := &follower{who: who, copied: copied, changelog: changelog, next: next, parts: map[string]int{}}
	f.replay = newReplay(func(key, value []byte) {
		f.changes = append(f.changes, [2][]byte{key, value})
	})
	f.replay.counted = func(key []byte, n int) {
		if n > 0 || copied.partsOf(key) > 0 || f.parts[string(key)] > 0 {
			f.parts[string(key)] = n
		}
	}
	f.replay.position = copied.positionNow()
	return f
}

// follow applies the next records, up to the offset after. If the copy has another owner, it
// changes nothing and returns errTaken.
func (f *follower) follow(records []*kgo.Record, after int64) error {
	for _, record := range records {
		if err := f.replay.record(record); err != nil {
			return fmt.Errorf("offset %d of %v: %w", record.Offset, f.changelog, err)
		}
	}
	f.next = after
	if !f.copied.apply(f.who, edits{f.replay.whole(after), f.replay.position, pairs(f.changes), f.parts}) {
		return errTaken
	}
	clear(f.changes) // release the memory of the fetch
	f.changes = f.changes[:0]
	clear(f.parts)
	for _, record := range records {
		record.Recycle()
	}
	return nil
}

// errTaken means that a copy has another owner. For a member this means that it is fenced, and for
// a standby that it has no work.
var errTaken = fmt.Errorf("the local state has another owner: %w", stream.ErrFenced)

// pairs returns an iterator over changes.
func pairs(changes [][2][]byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for _, c := range changes {
			if !yield(c[0], c[1]) {
				return
			}
		}
	}
}
