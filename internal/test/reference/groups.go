package reference

import "sort"

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
