package order

import "slices"

// Merger holds what several sources bring, each nearly in order, and releases it in order.
// A source without a mark holds everything back. It is not safe for concurrent use.
type Merger[V any] struct {
	queues    []queue[V]
	heads     tournament // first held key of each source; Last where nothing is held
	frontiers tournament
	held      int
}

// NewMerger returns a merger of so many sources, at least one.
func NewMerger[V any](sources int) *Merger[V] {
	return &Merger[V]{queues: make([]queue[V], sources), heads: newTournament(sources, Last), frontiers: newTournament(sources, First)}
}

// Mark says that all that a source brings later is behind a key. A frontier never goes back.
func (m *Merger[V]) Mark(source int, frontier Key) {
	if m.frontiers.keys[source].Before(frontier) {
		m.frontiers.set(source, frontier)
	}
}

// At returns the frontier of a source.
func (m *Merger[V]) At(source int) Key { return m.frontiers.keys[source] }

// Push holds a value of a source.
func (m *Merger[V]) Push(source int, k Key, v V) {
	if m.queues[source].insert(k, v) {
		m.heads.set(source, k)
	}
	m.held++
}

// Held returns how many values are held.
func (m *Merger[V]) Held() int { return m.held }

// Frontier returns a key that all that is pushed later is behind.
func (m *Merger[V]) Frontier() Key { return m.frontiers.least() }

// Behind returns the source with the least frontier: what is held waits for it.
func (m *Merger[V]) Behind() int { return m.frontiers.winner() }

// Next returns the first value that is held, and whether it may be released.
func (m *Merger[V]) Next() (k Key, v V, ok bool) {
	if m.held == 0 {
		return k, v, false
	}
	k = m.heads.least()
	return k, m.queues[m.heads.winner()].first().value, !m.frontiers.least().Before(k)
}

// Pop removes the first value that is held.
func (m *Merger[V]) Pop() {
	source := m.heads.winner()
	q := &m.queues[source]
	if q.drop(1); q.len() == 0 {
		m.heads.set(source, Last)
	} else {
		m.heads.set(source, q.first().key)
	}
	m.held--
}

// Filter removes the values that are held and that keep does not return true for.
func (m *Merger[V]) Filter(keep func(V) bool) {
	m.held = 0
	for i := range m.queues {
		q := &m.queues[i]
		rest := slices.DeleteFunc(q.rest(), func(e entry[V]) bool { return !keep(e.value) })
		q.items = q.items[:q.head+len(rest)]
		m.held += len(rest)
		if q.drop(0); len(rest) == 0 {
			m.heads.set(i, Last)
		} else {
			m.heads.set(i, q.first().key)
		}
	}
}

// queue is what is held of a source, in order. Most of it comes in order.
type queue[V any] struct{ fifo[entry[V]] }

type entry[V any] struct {
	key   Key
	value V
}

func (q *queue[V]) first() *entry[V] { return &q.items[q.head] }

// insert reports whether the value became the first.
func (q *queue[V]) insert(k Key, v V) bool {
	q.push(entry[V]{})
	i := len(q.items) - 1
	for ; i > q.head && k.Before(q.items[i-1].key); i-- {
		q.items[i] = q.items[i-1]
	}
	q.items[i] = entry[V]{k, v}
	return i == q.head
}

// fifo is a list that grows at its end and shrinks at its front.
type fifo[T any] struct {
	items []T
	head  int // of items
}

func (f *fifo[T]) len() int  { return len(f.items) - f.head }
func (f *fifo[T]) rest() []T { return f.items[f.head:] }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 {
		n := copy(f.items, f.rest())
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) drop(n int) {
	clear(f.items[f.head:][:n])
	if f.head += n; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
}

// tournament finds the least of the keys of some players. When the key of one changes, it
// costs one comparison for each level.
type tournament struct {
	size    int // of the leaves: a power of two
	keys    []Key
	winners []int32 // by node; 1 is the root
}

func newTournament(players int, k Key) tournament {
	size := 1
	for size < players {
		size *= 2
	}
	t := tournament{size: size, keys: make([]Key, size), winners: make([]int32, 2*size)}
	for i := range size {
		t.keys[i], t.winners[size+i] = Last, int32(i)
		if i < players {
			t.keys[i] = k
		}
	}
	for i := size - 1; i >= 1; i-- {
		t.winners[i] = t.less(i)
	}
	return t
}

// less returns which of the two players below a node has the lesser key.
func (t *tournament) less(node int) int32 {
	a, b := t.winners[2*node], t.winners[2*node+1]
	if t.keys[b].Before(t.keys[a]) {
		return b
	}
	return a
}

func (t *tournament) set(player int, k Key) {
	t.keys[player] = k
	for i := (t.size + player) / 2; i >= 1; i /= 2 {
		t.winners[i] = t.less(i)
	}
}

func (t *tournament) winner() int { return int(t.winners[1]) }
func (t *tournament) least() Key  { return t.keys[t.winners[1]] }
