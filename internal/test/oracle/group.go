package oracle

import (
	"cmp"
	"math"
	"slices"
)

// join adds the event to a group. The event ends there.
func (t *turn) join(g *Group) string {
	by := t.values[g.By]
	if by.Absent {
		return "group"
	}
	name := t.record.Key + "\x00" + by.text()
	t.open[name] = append(t.open[name], t)
	return dropped
}

// ended is a group that ended by the watermark.
type ended struct {
	members []*turn
	at      int64 // event time of the end
	reason  string
}

// endGroups ends the groups that end by the watermark, in the order of their ends, and continues
// with the one event of each.
func (s *state) endGroups() {
	i := slices.IndexFunc(s.Steps, func(step Step) bool { return step.Group != nil })
	if i < 0 {
		return
	}
	g := s.Steps[i].Group
	var over []ended
	for name, members := range s.open {
		var left []*turn
		for _, e := range g.cut(members) {
			if e.at <= s.watermark() {
				over = append(over, e)
			} else {
				left = append(left, e.members...)
			}
		}
		s.open[name] = left
	}
	slices.SortFunc(over, func(a, b ended) int {
		x, y := a.members[0], b.members[0]
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(x.record.Key, y.record.Key), cmp.Compare(x.values[g.By].text(), y.values[g.By].text()))
	})
	for _, e := range over {
		t := *e.members[0]
		t.id += "~" + g.Name
		t.record.Value = anyValue
		by := t.values[g.By]
		by.Kind, by.String = String, by.text()
		t.values[g.Name+".key"] = by
		t.values[g.Name+".count"] = Value{Kind: Int, Int: int64(len(e.members))}
		t.values[g.Name+".ended"] = Value{Kind: String, String: e.reason}
		t.end(t.steps(s.Steps[i+1:]))
	}
}

// anyValue is the value of a dead letter that the oracle does not predict.
const anyValue = "*"

// cut divides members into groups: at gaps of Idle or more, then at Timeout after each first
// member.
func (g *Group) cut(members []*turn) (groups []ended) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b *turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.offset, b.offset)) })
	idle, timeout := cmp.Or(g.Idle, math.MaxInt64/4), cmp.Or(g.Timeout, math.MaxInt64/4)
	for from := 0; from < len(members); {
		first, to := members[from].at, from+1
		for to < len(members) && members[to].at-members[to-1].at < idle && members[to].at < first+timeout {
			to++
		}
		e := ended{members[from:to], members[to-1].at + idle, "idle"}
		if first+timeout < e.at {
			e.at, e.reason = first+timeout, "timeout"
		}
		groups = append(groups, e)
		from = to
	}
	return groups
}
