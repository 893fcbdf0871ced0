package table

import (
	"cmp"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// wholeEvery is the interval of notes with all offsets. The first note of a member has all offsets
// too.
const wholeEvery = 64

// Note adds to a note how far tables without history were read. It reports whether the note must be
// written: an offset changed since the last note.
func (s *State) Note(n *order.TableRead) bool {
	if len(s.unsaid) == 0 && s.said > 0 {
		return false
	}
	read := maps.Clone(s.unsaid)
	if n.Whole = s.said%wholeEvery == 0; n.Whole {
		for at := range s.next {
			read[at] = !s.specs[at.table].Versions.Kept()
		}
	}
	for at, said := range read {
		if said {
			n.Tables = append(n.Tables, order.TableOffset{Partition: stream.Partition{Topic: s.specs[at.table].Topic, Index: at.partition}, Next: s.next[at]})
		}
	}
	slices.SortFunc(n.Tables, func(a, b order.TableOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
	n.Tables = slices.Compact(n.Tables)
	clear(s.unsaid)
	s.said++
	return true
}
