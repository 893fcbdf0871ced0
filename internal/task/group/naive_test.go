package group

import (
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/test/reference"
)

// naive is groups as lists of their events, cut anew for each event, without anything
// remembered that can be counted again.
type naive struct {
	idle, timeout, events int64 // seconds
	include               bool
	open                  map[string][]reference.Member // in log order
	over                  map[string][]naiveEnd
}

type naiveEnd struct {
	from, to, until int64
	first           int64 // offset of its first member
	ids             []string
}

func (n *naive) cut(name string) [][]reference.Member {
	return reference.CutGroups(n.open[name], n.idle, n.timeout)
}

// tell ends a group.
func (n *naive) tell(name string, group []reference.Member, reason Reason, at int64) string {
	var rest []reference.Member
	for _, m := range n.open[name] {
		if !slices.Contains(group, m) {
			rest = append(rest, m)
		}
	}
	n.open[name] = rest
	list, keep := reference.KeptOf(group), n.idle
	if keep == 0 {
		keep = n.timeout
	}
	end := naiveEnd{from: group[0].Time, to: reference.GroupEnd(group, n.idle, n.timeout), until: at + keep, first: list[0].Offset}
	newest, time := int64(0), int64(0)
	for _, m := range list {
		end.ids, newest, time = append(end.ids, m.ID), max(newest, m.Offset), max(time, m.Time)
	}
	if reason == Idle || reason == Timeout {
		time = at
	}
	n.over[name] = append(n.over[name], end)
	slices.SortStableFunc(list, func(a, b reference.Member) int { return int(a.Order - b.Order) })
	last := list[len(list)-1].Order
	for _, m := range list {
		if m.End {
			last = m.Order
			break
		}
	}
	missing, urls, sound := 0, []string{}, ""
	for order := range last + 1 {
		if !slices.ContainsFunc(list, func(m reference.Member) bool { return m.Order == order }) {
			missing++
		}
	}
	for _, m := range list {
		urls, sound = append(urls, fmt.Sprint("u", m.Order)), sound+fmt.Sprint("<", m.Offset, ">")
	}
	return fmt.Sprintf("%s %v in:3:%d~parts at %d by %d: %d missing, complete %v, %d of them %v %s level %v", name, reason, end.first, time, newest, missing, reason == Complete,
		len(list), urls, sound, float64(list[0].Offset)/2)
}

// expire returns the groups that a watermark ends, and forgets those before it.
func (n *naive) expire(watermark int64) (ended []string) {
	for {
		due, at := "", int64(math.MaxInt64)
		for name := range n.open {
			for _, group := range n.cut(name) {
				if d := reference.GroupEnd(group, n.idle, n.timeout); d <= watermark && (d < at || d == at && name < due) {
					due, at = name, d
				}
			}
		}
		if due == "" {
			break
		}
		group, reason := n.cut(due)[0], Timeout
		if n.idle > 0 && group[len(group)-1].Time+n.idle == at {
			reason = Idle
		}
		ended = append(ended, n.tell(due, group, reason, at))
	}
	for name := range n.over {
		n.over[name] = slices.DeleteFunc(n.over[name], func(e naiveEnd) bool { return e.until <= watermark })
	}
	return ended
}

// add returns what ended, and whether the event is late.
func (n *naive) add(name string, m reference.Member, watermark int64) (ended []string, late bool) {
	ended = n.expire(watermark)
	for {
		before := n.cut(name)
		within := -1
		for i, e := range n.over[name] {
			if e.from > m.Time || m.Time >= e.to {
				continue
			}
			if slices.Contains(e.ids, m.ID) {
				return ended, false
			}
			if within < 0 || e.first < n.over[name][within].first {
				within = i
			}
		}
		if slices.ContainsFunc(before, func(g []reference.Member) bool {
			return g[0].Time <= m.Time && m.Time < reference.GroupEnd(g, n.idle, n.timeout)
		}) {
			within = -1
		}
		if within >= 0 {
			if !n.include {
				return ended, true
			}
			n.over[name] = slices.Delete(n.over[name], within, within+1)
			continue
		}
		n.open[name] = append(n.open[name], m)
		after, full := n.cut(name), false
		for _, old := range before {
			for _, g := range after {
				if len(reference.KeptOf(g)) > int(n.events) && slices.ContainsFunc(old, func(m reference.Member) bool { return slices.Contains(g, m) }) {
					n.open[name] = slices.DeleteFunc(n.open[name], func(o reference.Member) bool { return o == m })
					ended, full = append(ended, n.tell(name, old, Full, old[len(old)-1].Time)), true
					break
				}
			}
		}
		if full {
			continue
		}
		for _, g := range after {
			if kept := reference.KeptOf(g); isWhole(kept) {
				ended = append(ended, n.tell(name, g, Complete, g[len(g)-1].Time))
			}
		}
		return ended, false
	}
}

func isWhole(kept []reference.Member) bool {
	end, there := int64(math.MaxInt64), map[int64]bool{}
	for _, m := range kept {
		if there[m.Order] = true; m.End {
			end = min(end, m.Order)
		}
	}
	for order := int64(0); end != math.MaxInt64 && order <= end; order++ {
		if !there[order] {
			return false
		}
	}
	return end != math.MaxInt64
}
