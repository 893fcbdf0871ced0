package keyed

// Member is the part of a value that a Circle uses. The value embeds it.
type Member struct {
	bytes int
	seen  uint64 // value of Used when the hand last passed
}

// Value is a pointer to a struct that embeds a Member.
type Value interface {
	Place() *Member
	Used() uint64 // when it was last used: any number that grows with each use
	Held() bool   // it must not be evicted
}

// Place returns m.
func (m *Member) Place() *Member { return m }

// Circle is a bounded cache that keeps frequently used values in memory, by the clock algorithm (an
// approximation of LRU). A hand goes round the values, and skips values that were used since it
// last passed. The zero value is empty.
type Circle[V Value] struct {
	list  []V
	hand  int
	bytes int
}

// All returns the values, in no order. The slice is valid until the next Add or Evict.
func (c *Circle[V]) All() []V { return c.list }

// Bytes returns the sum of the sizes.
func (c *Circle[V]) Bytes() int { return c.bytes }

// Add adds a value of the given size.
func (c *Circle[V]) Add(v V, bytes int) {
	v.Place().bytes = 0
	c.list = append(c.list, v)
	c.Resize(v, bytes)
}

// Resize changes the size of a value.
func (c *Circle[V]) Resize(v V, bytes int) {
	m := v.Place()
	c.bytes += bytes - m.bytes
	m.bytes = bytes
}

// Evict removes values until both limits hold, or until all remaining values are held. It passes
// each removed value to evicted. It skips used values, as long as it does not visit many more
// values than it removes.
func (c *Circle[V]) Evict(values, bytes int, evicted func(v V, bytes int)) {
	pass := 64
	for left := 2 * len(c.list); left > 0 && (len(c.list) > values || c.bytes > bytes); left-- {
		if c.hand >= len(c.list) {
			c.hand = 0
		}
		v := c.list[c.hand]
		m, used := v.Place(), v.Used()
		unused := used == m.seen
		m.seen = used
		if v.Held() || !unused && pass > 0 {
			pass--
			c.hand++
			continue
		}
		pass += 8
		last := len(c.list) - 1
		var none V
		c.list[c.hand], c.list[last] = c.list[last], none
		c.list = c.list[:last]
		c.bytes -= m.bytes
		evicted(v, m.bytes)
	}
}
