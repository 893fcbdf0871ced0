package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns a possible content of the disk after a power failure now. With a nil rng that is
// exactly the synced data. Otherwise:
//
//   - Each sector, of 512 or 4,096 bytes, holds its synced content or any later
//     one, independently of other sectors.
//   - A file that grew has any of its later sizes.
//   - The changes of the names in a folder are present up to any one of them,
//     since journals keep them in order. This is independent of other folders and
//     of the bytes of files.
//
// All data in the returned file system is durable.
func (m *Memory) Crash(rng *rand.Rand) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{rng: rng, sector: 512, done: map[*node]*node{}}
	if rng != nil {
		c.sector = []int{512, 4096}[rng.IntN(2)]
		c.percent = []int{0, 5, 50, 95, 100}[rng.IntN(5)]
	}
	after := NewMemory()
	after.capacity = m.capacity
	after.root = c.node(m.root)
	return after
}

// Copy returns a copy of the file system, with the visible and the durable content, as after the
// process was killed.
func (m *Memory) Copy() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	made := NewMemory()
	made.capacity = m.capacity
	done := map[*node]*node{}
	var clone func(n *node) *node
	cloneAll := func(names map[string]*node) map[string]*node {
		names = maps.Clone(names)
		for name, child := range names {
			if child != nil {
				names[name] = clone(child)
			}
		}
		return names
	}
	clone = func(n *node) *node {
		if done[n] != nil {
			return done[n]
		}
		made := &node{modified: n.modified, folder: n.folder, data: slices.Clone(n.data), disk: slices.Clone(n.disk), writes: slices.Clone(n.writes)}
		done[n] = made
		made.names, made.stored = cloneAll(n.names), cloneAll(n.stored)
		for _, c := range n.changes {
			made.changes = append(made.changes, cloneAll(c))
		}
		return made
	}
	made.root = clone(m.root)
	return made
}

// crash is one power failure.
type crash struct {
	rng     *rand.Rand
	sector  int
	percent int // probability that unsynced data is on the disk
	done    map[*node]*node
}

func (c *crash) keeps() bool { return c.rng != nil && c.rng.IntN(100) < c.percent }

func (c *crash) node(n *node) *node {
	if made := c.done[n]; made != nil {
		return made
	}
	made := &node{modified: n.modified, folder: n.folder}
	c.done[n] = made
	if n.folder {
		made.names = c.names(n)
		made.stored = maps.Clone(made.names)
		return made
	}
	made.data = c.data(n)
	made.disk = slices.Clone(made.data)
	return made
}

func (c *crash) names(n *node) map[string]*node {
	names := maps.Clone(n.stored)
	for _, ch := range n.changes {
		if !c.keeps() {
			break
		}
		apply(names, ch)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) { // sorted, so that the random draws are repeatable
		names[name] = c.node(names[name])
	}
	return names
}

// data returns the bytes of a file. Each sector is from some point in time.
func (c *crash) data(n *node) []byte {
	data := slices.Clone(n.disk)
	if c.rng == nil || len(n.writes) == 0 {
		return data
	}
	size := len(data)
	until := map[int]int{} // by sector: number of writes in it
	for i, w := range n.writes {
		for at := w.at; at < w.at+len(w.data); {
			sector := at / c.sector
			end := min(w.at+len(w.data), (sector+1)*c.sector)
			if _, drawn := until[sector]; !drawn {
				until[sector] = c.moment(len(n.writes))
			}
			if i < until[sector] {
				data = put(data, at, w.data[at-w.at:end-w.at])
			}
			at = end
		}
		if c.keeps() {
			size = max(size, w.size)
		}
	}
	if size > len(data) {
		data = append(data, make([]byte, size-len(data))...)
	}
	return data[:size]
}

// moment draws how many of n writes reached a sector.
func (c *crash) moment(n int) int {
	if !c.keeps() {
		return 0
	}
	if c.rng.IntN(2) == 0 {
		return n
	}
	return 1 + c.rng.IntN(n)
}
