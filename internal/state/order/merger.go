package order

import "slices"

// Merger holds the values of several sources, each nearly in order, and releases them in order. A
// source may consist of several ordered parts, one far behind another. A source without a mark
// blocks all releases. Merger is not safe for concurrent use.
type Merger[V any] struct {
	queues    []queue[V]
	heads     tournament // first held key of each source; Last if it holds none
	frontiers tournament
	held      int
}

// NewMerger returns a merger of at least one source.
func NewMerger[V any](sources int) *Merger[V] {
	return &Merger[V]{queues: make([]queue[V], sources), heads: newTournament(sources, Last), frontiers: newTournament(sources, First)}
}

// Mark sets the frontier of a source: all later values of the source have a greater key. A frontier
// never moves back.
func (m *Merger[V]) Mark(source int, frontier Key) {
	if m.frontiers.keys[source].Before(frontier) {
		m.frontiers.set(source, frontier)
	}
}

// At returns the frontier of a source.
func (m *Merger[V]) At(source int) Key { return m.frontiers.keys[source] }

// Push adds a value of a source.
func (m *Merger[V]) Push(source int, k Key, v V) {
	if m.queues[source].insert(k, v) {
		m.heads.set(source, k)
	}
	m.held++
}

// Held returns the number of held values.
func (m *Merger[V]) Held() int { return m.held }

// HoldsOf reports whether a value of the first given number of sources is held.
func (m *Merger[V]) HoldsOf(sources int) bool {
	return slices.ContainsFunc(m.heads.keys[:sources], func(k Key) bool { return k != Last })
}

// Frontier returns the least frontier. All values pushed later have a greater key.
func (m *Merger[V]) Frontier() Key { return m.frontiers.least() }

// Behind returns the source with the least frontier. Held values wait for it.
func (m *Merger[V]) Behind() int { return m.frontiers.winner() }

// Next returns the first held value, and whether it may be released.
func (m *Merger[V]) Next() (k Key, v V, ok bool) {
	if m.held == 0 {
		return k, v, false
	}
	k = m.heads.least()
	return k, m.queues[m.heads.winner()].least().value, !m.frontiers.least().Before(k)
}

// Pop removes the first held value.
func (m *Merger[V]) Pop() {
	source := m.heads.winner()
	q := &m.queues[source]
	if q.pop(); q.len()+len(q.far) == 0 {
		m.heads.set(source, Last)
	} else {
		m.heads.set(source, q.least().key)
	}
	m.held--
}

// Filter removes the held values that keep returns false for.
func (m *Merger[V]) Filter(keep func(V) bool) {
	m.held = 0
	for i := range m.queues {
		q := &m.queues[i]
		rest := slices.DeleteFunc(q.rest(), func(e entry[V]) bool { return !keep(e.value) })
		q.items = q.items[:q.head+len(rest)]
		q.drop(0)
		far := slices.DeleteFunc(q.far, func(e entry[V]) bool { return !keep(e.value) })
		q.far = q.far[:0]
		for _, e := range far {
			q.insertFar(e)
		}
		if m.held += len(rest) + len(far); len(rest)+len(far) == 0 {
			m.heads.set(i, Last)
		} else {
			m.heads.set(i, q.least().key)
		}
	}
}

// queue holds the values of a source. Most arrive in order, or slightly out of order.
type queue[V any] struct {
	fifo[entry[V]]            // in order
	far            []entry[V] // a heap of entries that arrived out of order by more than nearBy
}

type entry[V any] struct {
	key   Key
	value V
}

const nearBy = 32

// insert adds a value and reports whether it became the first.
func (q *queue[V]) insert(k Key, v V) bool {
	first := q.len()+len(q.far) == 0 || k.Before(q.least().key)
	if at := len(q.items) - nearBy; at > q.head && k.Before(q.items[at-1].key) {
		q.insertFar(entry[V]{k, v})
		return first
	}
	q.push(entry[V]{})
	i := len(q.items) - 1
	for ; i > q.head && k.Before(q.items[i-1].key); i-- {
		q.items[i] = q.items[i-1]
	}
	q.items[i] = entry[V]{k, v}
	return first
}

// least returns the first value in order.
func (q *queue[V]) least() *entry[V] {
	if q.isFar() {
		return &q.far[0]
	}
	return &q.items[q.head]
}

// isFar reports whether the first value in order is in far.
func (q *queue[V]) isFar() bool {
	return len(q.far) > 0 && (q.len() == 0 || q.far[0].key.Before(q.items[q.head].key))
}

// pop removes the first value in order.
func (q *queue[V]) pop() {
	if !q.isFar() {
		q.drop(1)
		return
	}
	last := len(q.far) - 1
	e := q.far[last]
	q.far[last] = entry[V]{}
	if q.far = q.far[:last]; last > 0 {
		q.sink(e)
	}
}

// insertFar adds an entry to the heap.
func (q *queue[V]) insertFar(e entry[V]) {
	q.far = append(q.far, e)
	i := len(q.far) - 1
	for up := (i - 1) / 2; i > 0 && e.key.Before(q.far[up].key); i, up = up, (up-1)/2 {
		q.far[i] = q.far[up]
	}
	q.far[i] = e
}

// sink replaces the first entry of the heap by e.
func (q *queue[V]) sink(e entry[V]) {
	i := 0
	for down := 1; down < len(q.far); down = 2*i + 1 {
		if down+1 < len(q.far) && q.far[down+1].key.Before(q.far[down].key) {
			down++
		}
		if !q.far[down].key.Before(e.key) {
			break
		}
		q.far[i] = q.far[down]
		i = down
	}
	q.far[i] = e
}

// fifo is a list that grows at its end and shrinks at its front.
type fifo[T any] struct {
	items []T
	head  int // index of the first item
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

// tournament finds the least key of several players. A changed key costs one comparison per level.
type tournament struct {
	size    int // number of leaves: a power of two
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

// less returns the player with the lesser key of the two below a node.
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
