package eventtime

import (
	"cmp"
	"slices"
)

// Join is an interval join of two topics. A left event and a right one are a pair if their texts in
// the field On are equal, and the right is from Before earlier to Within later, both included.
type Join struct {
	Left, Right    string // topics
	On             string
	Within, Before int64
	Match          string // first or last (by time, then in the order), or each
	Inner          bool   // lefts without a right are left out
}

// Pair is the ids of a row. Right is "" where the left has none.
type Pair struct{ Left, Right string }

// Pairs returns the rows in the order of their lefts, and of a left in the order of the
// rights.
func (j Join) Pairs(order []Placed) []Pair {
	var rows []Pair
	rights := map[string][]*Placed{}
	for i := range order {
		if r := &order[i]; r.Topic == j.Right {
			rights[r.Text[j.On]] = append(rights[r.Text[j.On]], r)
		}
	}
	for _, l := range order {
		if l.Topic != j.Left {
			continue
		}
		matches := j.of(&l, rights[l.Text[j.On]])
		if len(matches) == 0 && !j.Inner {
			rows = append(rows, Pair{Left: l.ID})
		}
		for _, r := range matches {
			rows = append(rows, Pair{l.ID, r.ID})
		}
	}
	return rows
}

// of returns the rights that rows of the left have.
func (j Join) of(l *Placed, rights []*Placed) []*Placed {
	var in []*Placed
	for _, r := range rights {
		if d := r.Time - l.Time; d >= -j.Before && d <= j.Within {
			in = append(in, r)
		}
	}
	if len(in) == 0 || j.Match == "each" {
		return in
	}
	best := in[0]
	for _, r := range in {
		if j.Match == "last" && r.Time >= best.Time || j.Match == "first" && r.Time < best.Time {
			best = r
		}
	}
	return []*Placed{best}
}

// Session is a group of events of a key with times that follow each other closely.
type Session struct {
	Key         string
	First, Last int64 // times
	IDs         []string
}

// Sessions returns the sessions of each key by the times of its events alone. The gap
// within a session is below idle, and its events are within timeout of the first; 0 is
// no timeout. They are in the order of their first times, and of one time by key.
func Sessions(order []Placed, by string, idle, timeout int64) []Session {
	keys := map[string][]Placed{}
	for _, e := range order {
		if key, ok := e.Text[by]; ok {
			keys[key] = append(keys[key], e)
		}
	}
	var all []Session
	for key, events := range keys {
		slices.SortStableFunc(events, func(a, b Placed) int { return cmp.Compare(a.Time, b.Time) })
		var s *Session
		for _, e := range events {
			if s == nil || e.Time-s.Last >= idle || timeout > 0 && e.Time-s.First >= timeout {
				all = append(all, Session{Key: key, First: e.Time})
				s = &all[len(all)-1]
			}
			s.Last, s.IDs = e.Time, append(s.IDs, e.ID)
		}
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key)) })
	return all
}
