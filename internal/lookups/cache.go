package lookups

import "time"

// cache keeps rows in two generations: what is used moves to the young one, and
// when that has half of the bytes, the old one is forgotten and it is the old one.
type cache struct {
	max        int
	young, old generation
}

type generation struct {
	rows  map[string]kept
	bytes int
}

type kept struct {
	row   []byte
	until time.Time
}

// entryBytes is about what an entry takes beside its key and row.
const entryBytes = 128

func newCache(max int) cache {
	return cache{max: max, young: generation{rows: map[string]kept{}}}
}

func (c *cache) bytes() int { return c.young.bytes + c.old.bytes }

// get returns the row of a key, and whether it is known at a time.
func (c *cache) get(key string, now time.Time) (row []byte, known bool) {
	k, ok := c.young.rows[key]
	if !ok {
		if k, ok = c.old.rows[key]; ok && now.Before(k.until) {
			c.put(key, k.row, k.until)
		}
	}
	if !ok || !now.Before(k.until) {
		return nil, false
	}
	return k.row, true
}

func (c *cache) put(key string, row []byte, until time.Time) {
	size := len(key) + len(row) + entryBytes
	if size > c.max/2 {
		return
	}
	if before, ok := c.young.rows[key]; ok {
		c.young.bytes -= len(key) + len(before.row) + entryBytes
		delete(c.young.rows, key)
	}
	if c.young.bytes+size > c.max/2 {
		c.old, c.young = c.young, generation{rows: map[string]kept{}}
	}
	c.young.rows[key] = kept{row, until}
	c.young.bytes += size
}
