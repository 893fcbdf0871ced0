package keyed

// Member is what a Circle knows of a value. It is embedded in it.
type Member struct {
	bytes int
	seen  uint64 // Used when the hand came by
}

// Value is a pointer to a struct that embeds a Member.
type Value interface {
	Place() *Member
	Used() uint64 // when it was last used: any number that is greater with each use
	Held() bool   // it must stay
}

// Place returns m.
func (m *Member) Place() *Member { return m }

// Circle keeps what is used often in memory of a bounded size. It is values in a circle
// that a hand goes round, passing over what was used since it last came by. The zero value
// is empty.
type Circle[V Value] struct {
	list  []V
	hand  int
	bytes int
}

// All returns the values, in no order, until the next Add or Evict.
func (c *Circle[V]) All() []V { return c.list }

// Bytes returns the sum of the sizes.
func (c *Circle[V]) Bytes() int { return c.bytes }

// Add adds a value that takes so many bytes.
func (c *Circle[V]) Add(v V, bytes int) {
	v.Place().bytes = 0
	c.list = append(c.list, v)
	c.Resize(v, bytes)
}

// Resize notes that a value takes so many bytes.
func (c *Circle[V]) Resize(v V, bytes int) {
	m := v.Place()
	c.bytes += bytes - m.bytes
	m.bytes = bytes
}

// Evict takes out values, and gives them to evicted, until at most so many are
// left and take at most so many bytes, or all that are left are held. It passes
// over used ones as far as that does not make it look at many more values than
// it takes out.
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
