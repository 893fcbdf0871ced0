package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/stream"
)

// remedies lists the consistent logs that the directory contains. A remedy is a run of whole frames
// with a state computed only from frames of the run and frames before it:
//
//   - with the checkpoint, if the run continues it (First <= Applied+1) and
//     covers all frames that may be in it (Last >= Seen);
//   - with a rebuilt state, if the run begins with frame 1;
//   - only the checkpoint, if it holds no frame in part.
func (c *checker) remedies() {
	cp := &c.report.Checkpoint
	floor := max(cp.Applied, cp.Seen)
	for _, r := range c.runs {
		switch {
		case c.sound() && r.first <= cp.Applied+1 && r.last >= floor:
			c.remedy(r, false)
		case r.first == 1:
			c.remedy(r, true)
		case !c.sound():
			c.stuck("frames %d to %d: the state cannot be rebuilt without the frames before them", r.first, r.last)
		case r.first > cp.Applied+1:
			c.stuck("frames %d to %d: the checkpoint ends with frame %d, and the frames in between are missing", r.first, r.last, cp.Applied)
		default:
			c.stuck("frames %d to %d: the checkpoint has parts of frames up to %d and cannot go back, and the frames before %d that would rebuild it are missing", r.first, r.last, floor, r.first)
		}
	}
	if !slices.ContainsFunc(c.runs, func(r *run) bool { return r.last >= floor && r.first <= cp.Applied+1 }) && c.sound() && cp.Applied > 0 && cp.Applied >= cp.Seen {
		c.remedy(&run{first: cp.Applied + 1, last: cp.Applied, extents: newExtents()}, false)
	}
	slices.SortFunc(c.report.Remedies, func(a, b Remedy) int {
		return cmp.Or(cmp.Compare(a.LostFrames, b.LostFrames), cmp.Compare(a.First, b.First))
	})
	if len(c.report.Remedies) > 0 {
		c.report.Stuck = []string{}
	} else if len(c.report.Stuck) == 0 {
		c.stuck("it has no complete frame")
	}
}

func (c *checker) stuck(format string, args ...any) {
	c.report.Stuck = append(c.report.Stuck, fmt.Sprintf(format, args...))
}

// remedy adds the remedy that keeps r.
func (c *checker) remedy(r *run, rebuild bool) {
	all := c.known()
	m := Remedy{First: r.first, Last: r.last, Rebuild: rebuild, Loses: []Loss{}, Back: []Moved{}}
	oldest, newest := r.first, max(c.newest(), r.last)
	if len(c.runs) > 0 {
		oldest, newest = min(oldest, c.runs[0].first), max(newest, c.runs[len(c.runs)-1].last)
	}
	for _, d := range c.report.Damage {
		if d.First > 0 {
			oldest, newest = min(oldest, d.First), max(newest, d.Last)
		}
	}
	m.LostFrames = newest - oldest + 1 - (r.last + 1 - r.first)
	for _, p := range all.partitions() {
		had, kept := all.parts[p], r.parts[p]
		if _, found := r.parts[p]; !found {
			kept = extent{had.next, had.next}
		}
		c.lose(&m, p, extent{had.first, kept.first}, all)
		c.lose(&m, p, extent{kept.next, had.next}, all)
	}
	after := newExtents()
	if !rebuild {
		after.add(&c.cells)
	}
	after.add(&r.extents)
	for _, at := range slices.SortedFunc(maps.Keys(all.groups), compareGroups) {
		if from, to := all.groups[at], after.groups[at]; to < from {
			m.Back = append(m.Back, Moved{at.group, at.partition.Topic, at.partition.Index, from, to})
		}
	}
	c.report.Remedies = append(c.report.Remedies, m)
}

// lose adds records that a remedy removes.
func (c *checker) lose(m *Remedy, p stream.Partition, x extent, all extents) {
	if x.first >= x.next {
		return
	}
	l := Loss{Topic: p.Topic, Partition: p.Index, From: x.first, To: x.next}
	c.unread(&l, all)
	m.Loses = append(m.Loses, l)
}

// Keeping returns the first remedy that keeps the given frame; frame 0 accepts any remedy.
func (r *Report) Keeping(frame uint64) (remedy Remedy, found bool) {
	for _, m := range r.Remedies {
		if frame == 0 || m.First <= frame && frame <= m.Last {
			return m, true
		}
	}
	return Remedy{}, false
}
