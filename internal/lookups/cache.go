package lookups

import "time"

// cache holds rows in two generations. A row that is used moves to the young generation. When the
// young generation has half of the maximum size, it replaces the old one.
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

// entryBytes estimates the memory of an entry without its key and row.
const entryBytes = 128

func newCache(max int) cache {
	return cache{max: max, young: generation{rows: map[string]kept{}}}
}

func (c *cache) bytes() int { return c.young.bytes + c.old.bytes }

// get returns the row of a key, and whether the cache has an unexpired answer for it. The row is
// nil if the key has none.
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
