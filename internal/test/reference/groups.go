package reference

import (
	"math/big"
	"sort"
)

// Member is an event of a group, by what decides which events are together.
type Member struct {
	Time, Source, Offset int64
	ID                   string
	Order                int64
	End                  bool
}

// Before reports whether a member stands before another.
func (m Member) Before(o Member) bool {
	if m.Time != o.Time {
		return m.Time < o.Time
	}
	if m.Source != o.Source {
		return m.Source < o.Source
	}
	return m.Offset < o.Offset
}

// CutGroups returns the groups that members are by their times: sorted, and cut where a
// gap is at least idle, and where one is timeout or more after the first of its group.
// Of idle and timeout 0 is never.
func CutGroups(members []Member, idle, timeout int64) (groups [][]Member) {
	sorted := append([]Member(nil), members...)
	sort.Slice(sorted, func(i, k int) bool { return sorted[i].Before(sorted[k]) })
	for i, m := range sorted {
		begins := i == 0
		if !begins {
			group := groups[len(groups)-1]
			begins = idle > 0 && m.Time-sorted[i-1].Time >= idle || timeout > 0 && m.Time >= group[0].Time+timeout
		}
		if begins {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], m)
	}
	return groups
}

// GroupEnd returns the first time that is not of a group.
func GroupEnd(group []Member, idle, timeout int64) int64 {
	end := group[len(group)-1].Time + idle
	if byTimeout := group[0].Time + timeout; idle == 0 || timeout > 0 && byTimeout < end {
		end = byTimeout
	}
	return end
}

// KeptOf returns the members of a group without those that repeat the id of an earlier
// one, in their order.
func KeptOf(group []Member) (kept []Member) {
	seen := map[string]bool{}
	for _, m := range group {
		if !seen[m.ID] {
			kept = append(kept, m)
		}
		seen[m.ID] = true
	}
	return kept
}

// Window is the members of a time from Start on and before End, in their order.
type Window struct {
	Start, End int64
	Members    []Member
}

// Windows returns the windows that have members, by their ends: they are of a size, and
// end at multiples of every.
func Windows(members []Member, every, size int64) (windows []Window) {
	sorted := append([]Member(nil), members...)
	sort.Slice(sorted, func(i, k int) bool { return sorted[i].Before(sorted[k]) })
	ends := map[int64]bool{}
	for _, m := range sorted {
		for end := m.Time + 1; end <= m.Time+size; end++ {
			if end%every == 0 {
				ends[end] = true
			}
		}
	}
	for end := range ends {
		w := Window{Start: end - size, End: end}
		for _, m := range sorted {
			if w.Start <= m.Time && m.Time < end {
				w.Members = append(w.Members, m)
			}
		}
		windows = append(windows, w)
	}
	sort.Slice(windows, func(i, k int) bool { return windows[i].End < windows[k].End })
	return windows
}

// Sum returns the sum of numbers, which is rounded once.
func Sum(numbers ...float64) float64 {
	sum := new(big.Rat)
	for _, x := range numbers {
		sum.Add(sum, new(big.Rat).SetFloat64(x))
	}
	rounded, _ := sum.Float64()
	return rounded
}
