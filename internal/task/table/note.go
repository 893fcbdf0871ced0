package table

import (
	"cmp"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// wholeEvery is how many notes there are from one that says all offsets to the next. The first
// one of a member says all.
const wholeEvery = 64

// Note adds to a note up to where tables were read whose newest rows are found, and reports
// whether a note has to say it: something moved since the last one.
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
