package feature

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// entry is an entry of a window or of the newest values: its time (0 if not kept) and the word of
// its value.
type entry struct{ t, value int64 }

// look holds the entries of a window, or of the newest values, for the aggregates that read each
// entry. It belongs to the Set's pool and is reused.
type look struct {
	*feature
	of       Kind // kind of the values
	texts    *texts
	at       int64  // the time of the read
	list     *exact // read together with the entries after from, if only the first and last entries are needed
	from     int64
	entries  []entry // in order of arrival; in order of time after inOrder
	ordered  bool
	words    []int64 // words of the entries, for percentiles
	table    []slot
	slots    []slot    // hash table of the counted values
	counted  []counted // the different values
	marked   uint32    // mark of a slot in use
	panes    bool      // the window is read from panes: total entries of all panes, and their sketches
	total    int64
	sketched *sketched
	groups
}

type slot struct {
	value int64
	mark  uint32
	at    uint32 // index in counted
}

// counted is a value and its number of entries.
type counted struct {
	value int64
	n     int
}

// columns is the destination of aggregates: numbers for a feature of Numbers, else values.
type columns struct {
	numbers []float64
	values  []Value
}

// look writes to columns the aggregates that read entries, or, if before is set, those that are
// read before the event is added. For values it writes all other aggregates too. It reports whether
// a window has more groups than the feature returns.
func (s *Set) look(c *Cell, f *feature, t int64, before bool, out columns) (more bool) {
	if !f.looks || before && !f.before {
		return false
	}
	l := s.looks.get(f, t)
	switch {
	case f.per:
		more = l.split(f.windows.in(c), out.values, before)
	case f.kind == kindLast:
		l.ring(&f.last, c.words)
		l.write(out, 0, before)
	case f.windows.newestN > 0:
		l.newest(f.windows.in(c))
		l.write(out, 0, before)
	default:
		for k := range f.windows.list {
			if w := &f.windows.list[k]; w.exact && !f.windows.over(c) {
				l.window(f.windows.in(c), &f.windows.entries, w.size)
			} else {
				l.paned(c, k)
			}
			l.write(out, k*len(f.aggregates), before)
		}
	}
	s.looks.put(l)
	return more
}

// write writes the aggregates to columns, beginning at index at.
func (l *look) write(out columns, at int, before bool) {
	for k, a := range l.aggregates {
		if before != (a == Previous) || out.numbers != nil && (!a.looks() || a.Many()) {
			continue
		}
		if a.Many() {
			to := &out.values[at+k]
			*to = Value{Items: l.items(a, to.Items[:0]), Present: true}
			continue
		}
		switch v := l.value(a); {
		case out.values != nil:
			if !v.Present && l.values == Numbers {
				v = Value{Number: l.empty, Present: true}
			}
			v.Items = out.values[at+k].Items
			out.values[at+k] = v
		case v.Present:
			out.numbers[at+k] = v.Number
		default:
			out.numbers[at+k] = l.empty
		}
	}
}

// looks is a pool of looks.
type looks struct{ spare sync.Pool }

func (l *looks) get(f *feature, at int64) *look {
	of, _ := l.spare.Get().(*look)
	if of == nil {
		of = &look{}
	}
	of.feature, of.of, of.at = f, f.values, at
	of.reset()
	return of
}

func (l *looks) put(of *look) {
	of.feature, of.texts, of.list, of.sketched = nil, nil, nil, nil
	l.spare.Put(of)
}

func (l *look) reset() {
	l.entries, l.words, l.ordered, l.list = l.entries[:0], l.words[:0], true, nil
	l.panes, l.sketched = false, nil
}

// add adds an entry.
func (l *look) add(t, value int64) {
	value = l.unsigned(value)
	if n := len(l.entries); n > 0 && t < l.entries[n-1].t {
		l.ordered = false
	}
	l.entries = append(l.entries, entry{t, value})
}

// window adds the entries of an exact window of size microseconds.
func (l *look) window(x *exact, e *entries, size int64) {
	l.reset()
	l.texts, l.list, l.from = x.texts, x, max(l.at-size, x.newest-e.longest)
	if l.edges {
		return
	}
	for k := range x.blocks() {
		if !x.index.blocks[k].outside(l.from, l.at) {
			l.part(x.blockWords(e, k), l.from)
		}
	}
	l.part(x.tailWords(e), l.from)
}

// part adds the entries of words that are in (lo, l.at].
func (l *look) part(words []int64, lo int64) {
	for k := 1; k < len(words); k += 2 {
		if t := words[k-1]; t > lo && t <= l.at {
			l.add(t, words[k])
		}
	}
}

// newest adds the newest values of a list, by arrival.
func (l *look) newest(x *exact) {
	l.reset()
	l.texts = x.texts
	live := x.live()
	for ; len(live) > 0; live = live[2:] {
		l.add(0, live[1])
	}
}

// ring adds the newest values of a ring.
func (l *look) ring(of *last, words []int64) {
	l.reset()
	first, second := of.values(words)
	for _, part := range [2][]int64{first, second} {
		for _, v := range part {
			l.add(0, v)
		}
	}
}

// equal reports whether two values are equal.
func (l *look) equal(a, b int64) bool {
	return a == b || l.of == Texts && bytes.Equal(l.texts.of(a), l.texts.of(b))
}

// inOrder sorts the entries by (time, position).
func (l *look) inOrder() {
	if !l.ordered {
		slices.SortStableFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.t, b.t) })
		l.ordered = true
	}
}

// edge returns the value of the first or the last entry by (time, position).
func (l *look) edge(last bool) Value {
	if l.list == nil || !l.edges {
		if len(l.entries) == 0 {
			return Value{}
		}
		l.inOrder()
		if last {
			return l.valueOf(l.entries[len(l.entries)-1].value)
		}
		return l.valueOf(l.entries[0].value)
	}
	var found edge
	x, e := l.list, &l.windows.entries
	if !last {
		for k := range x.blocks() {
			if b := &x.index.blocks[k]; !b.outside(l.from, l.at) && !(found.ok && b.first >= found.t) {
				found.first(x.blockWords(e, k), l.from, l.at)
			}
		}
		found.first(x.tailWords(e), l.from, l.at)
	} else {
		found.last(x.tailWords(e), l.from, l.at)
		for k := x.blocks() - 1; k >= 0; k-- {
			if b := &x.index.blocks[k]; !b.outside(l.from, l.at) && !(found.ok && b.last <= found.t) {
				found.last(x.blockWords(e, k), l.from, l.at)
			}
		}
	}
	if !found.ok {
		return Value{}
	}
	return l.valueOf(found.value)
}

// edge is the entry found so far to be the first or the last one.
type edge struct {
	entry
	ok bool
}

// first scans words that come after those it scanned before.
func (e *edge) first(words []int64, lo, at int64) {
	for k := 1; k < len(words); k += 2 {
		if t := words[k-1]; t > lo && t <= at && (!e.ok || t < e.t) {
			*e = edge{entry{t, words[k]}, true}
		}
	}
}

// last scans words that come before those it scanned before.
func (e *edge) last(words []int64, lo, at int64) {
	for k := len(words) - 1; k > 0; k -= 2 {
		if t := words[k-1]; t > lo && t <= at && (!e.ok || t > e.t) {
			*e = edge{entry{t, words[k]}, true}
		}
	}
}

// value returns the value of an aggregate.
func (l *look) value(a Aggregate) Value {
	if l.panes {
		return l.ofPanes(a)
	}
	switch a {
	case FirstValue:
		return l.edge(false)
	case LastValue, Previous:
		return l.edge(true)
	case Count:
		return Value{Number: float64(len(l.entries)), Present: true}
	case Changes:
		return Value{Number: float64(l.changes()), Present: true}
	case Distinct:
		l.count()
		return Value{Number: float64(len(l.counted)), Present: true}
	}
	if len(l.entries) == 0 {
		return Value{}
	}
	if a == EWMA {
		return Value{Number: l.ewma(), Present: true}
	}
	return l.percentile(percent(a))
}

// percent returns the percentage of a percentile aggregate.
func percent(a Aggregate) int {
	switch a {
	case P50:
		return 50
	case P95:
		return 95
	}
	return 99
}

// valueOf returns the value that word encodes.
func (l *look) valueOf(word int64) Value {
	switch l.of {
	case Ints:
		return Value{Int: word, Present: true}
	case Texts:
		return Value{Text: l.texts.of(word), Present: true}
	}
	return Value{Number: l.number(word), Present: true}
}

// changes returns how often a value differs from the one before it.
func (l *look) changes() (n int) {
	l.inOrder()
	for k := 1; k < len(l.entries); k++ {
		if !l.equal(l.entries[k-1].value, l.entries[k].value) {
			n++
		}
	}
	return n
}

// items appends the values of an aggregate that is Many.
func (l *look) items(a Aggregate, to []Value) []Value {
	if a == List {
		l.inOrder()
		for _, e := range l.entries[max(0, len(l.entries)-l.take):] {
			to = append(to, l.valueOf(e.value))
		}
		return to
	}
	l.count()
	for _, c := range best(l.counted, l.take, l.byCount) {
		v := l.valueOf(c.value)
		v.Count = c.n
		to = append(to, v)
	}
	return to
}

// compare compares two values.
func (l *look) compare(a, b int64) int {
	if l.of == Texts {
		return bytes.Compare(l.texts.of(a), l.texts.of(b))
	}
	return cmp.Compare(a, b)
}

// byCount orders values by their number of entries, the most first, then by value.
func (l *look) byCount(a, b counted) int {
	if a.n != b.n {
		return b.n - a.n
	}
	return l.compare(a.value, b.value)
}

// best returns the first n elements that list would have if sorted; n is at least 1, and no two
// elements are equal. It moves elements of the list. The elements before the current one form a
// heap of the best, with the worst of them on top. So best takes linear time if few elements are
// better than those before them.
func best[T any](list []T, n int, compare func(a, b T) int) []T {
	n = min(n, len(list))
	top := list[:n]
	if n < len(list) {
		for k := n/2 - 1; k >= 0; k-- {
			sink(top, k, compare)
		}
		for k := n; k < len(list); k++ {
			if compare(list[k], top[0]) < 0 {
				list[k], top[0] = top[0], list[k]
				sink(top, 0, compare)
			}
		}
	}
	slices.SortFunc(top, compare)
	return top
}

// sink moves an element of a heap down to its place.
func sink[T any](heap []T, k int, compare func(a, b T) int) {
	for {
		below := 2*k + 1
		if below >= len(heap) {
			return
		}
		if below+1 < len(heap) && compare(heap[below+1], heap[below]) > 0 {
			below++
		}
		if compare(heap[below], heap[k]) < 0 {
			return
		}
		heap[k], heap[below] = heap[below], heap[k]
		k = below
	}
}

// count counts the entries of each different value.
func (l *look) count() {
	l.countUpTo(len(l.entries))
	for k := range l.entries {
		l.counted[l.placeOf(l.entries[k].value)].n++
	}
}

// countUpTo makes the table ready for this many values, with at least twice as many slots.
func (l *look) countUpTo(entries int) {
	size := 16
	for size < 2*entries {
		size *= 2
	}
	if l.marked++; len(l.table) < size || l.marked == 0 {
		l.table, l.marked = make([]slot, max(size, len(l.table))), 1
	}
	l.slots, l.counted = l.table[:size], l.counted[:0]
}

// placeOf returns the index of a value in counted. It appends a new value.
func (l *look) placeOf(v int64) uint32 {
	last := uint64(len(l.slots) - 1)
	for at := l.hash(v) & last; ; at = (at + 1) & last {
		switch s := &l.slots[at]; {
		case s.mark != l.marked:
			*s = slot{v, l.marked, uint32(len(l.counted))}
			l.counted = append(l.counted, counted{value: v})
			return s.at
		case l.equal(s.value, v):
			return s.at
		}
	}
}

// hash returns a number that is equal for equal values. It reads 8 bytes of a text at once.
func (l *look) hash(v int64) uint64 {
	h := uint64(v)
	if l.of == Texts {
		text := l.texts.of(v)
		for h = uint64(len(text)); len(text) >= 8; text = text[8:] {
			h = (h ^ binary.LittleEndian.Uint64(text)) * 0x9E3779B97F4A7C15
			h ^= h >> 32
		}
		for _, b := range text {
			h = (h ^ uint64(b)) * 1099511628211
		}
	}
	h = (h ^ h>>32) * 0x9E3779B97F4A7C15
	return h ^ h>>32
}

// percentile returns the least value that at least p per cent of the values do not exceed.
func (l *look) percentile(p int) Value {
	if len(l.words) == 0 {
		for k := range l.entries {
			l.words = append(l.words, l.entries[k].value)
		}
	}
	return l.valueOf(nth(l.words, (len(l.words)*p+99)/100-1))
}

// nth returns the word that would be at index k if words were sorted. It moves words. It is Hoare's
// selection, and sorts if that takes too many rounds.
func nth(words []int64, k int) int64 {
	for rounds := 2 * bits.Len(uint(len(words))); rounds > 0 && len(words) > 16; rounds-- {
		a, b, c := words[0], words[len(words)/2], words[len(words)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		less, more := 0, len(words)
		for i := 0; i < more; {
			switch w := words[i]; {
			case w < pivot:
				words[i], words[less] = words[less], w
				less, i = less+1, i+1
			case w > pivot:
				more--
				words[i], words[more] = words[more], w
			default:
				i++
			}
		}
		switch {
		case k < less:
			words = words[:less]
		case k >= more:
			words, k = words[more:], k-more
		default:
			return pivot
		}
	}
	slices.Sort(words)
	return words[k]
}

// weightedFloat bounds the floats of EWMA: a sum of 2^14 of them is in range.
const weightedFloat = 0x1p1009

// ewma returns the weighted mean of the values. A weight halves with each half-life before the
// read. The values are added by (time, position).
func (l *look) ewma() float64 {
	l.inOrder()
	var sum, weights float64
	for k := range l.entries {
		w := exp2(-float64(l.at-l.entries[k].t) / l.halfLife)
		sum += float64(w * l.number(l.entries[k].value))
		weights += w
	}
	if !(weights > 0) { // all entries are older than a thousand half-lives
		return l.number(l.entries[len(l.entries)-1].value)
	}
	return sum / weights
}

// exp2 returns 2^x for x <= 0, with a relative error of 2^-52. It has no operation that an
// architecture may fuse or round differently.
func exp2(x float64) float64 {
	if x < -1100 {
		return 0
	}
	whole := math.RoundToEven(x)
	y, sum := x-whole, powers[len(powers)-1]
	for k := len(powers) - 2; k >= 0; k-- {
		sum = float64(sum*y) + powers[k]
	}
	if whole < -1022 {
		return math.Ldexp(sum, int(whole))
	}
	return sum * math.Float64frombits(uint64(1023+int64(whole))<<52)
}

// powers holds the terms of the series of 2^y: ln2^k/k!.
var powers = [...]float64{
	1,
	math.Ln2,
	math.Ln2 * math.Ln2 / 2,
	math.Ln2 * math.Ln2 * math.Ln2 / 6,
	ln2To4 / 24,
	ln2To4 * math.Ln2 / 120,
	ln2To4 * math.Ln2 * math.Ln2 / 720,
	ln2To4 * math.Ln2 * math.Ln2 * math.Ln2 / 5040,
	ln2To4 * ln2To4 / 40320,
	ln2To4 * ln2To4 * math.Ln2 / 362880,
	ln2To4 * ln2To4 * math.Ln2 * math.Ln2 / 3628800,
	ln2To4 * ln2To4 * math.Ln2 * math.Ln2 * math.Ln2 / 39916800,
	ln2To4 * ln2To4 * ln2To4 / 479001600,
	ln2To4 * ln2To4 * ln2To4 * math.Ln2 / 6227020800,
}

const ln2To4 = math.Ln2 * math.Ln2 * math.Ln2 * math.Ln2
