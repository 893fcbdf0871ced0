package feature

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
)

// The state of a key is one entry of the sub-key "", the header, and one entry for every block of
// exact entries and for every sketch of a pane.
//
//	header: format | 1 and the newest time, or 0 | every feature in order
//	elapsed: 1 and the time, or 0
//	last:    count | values, the oldest first
//	windows: where there are exact ones
//	           0 | first block | number of blocks | number of entries | entries of the tail
//	           1 | newest time | panes of every exact window
//	           2 | newest time of those that left a full list | as behind 0
//	         then the panes of every other window
//	panes:   count | index of the newest | each: panes behind the newest, count, sum, max, min, moments
//	moments: squares | times since the pane begins, their squares, products
//	block:   blockLen entries
//	sketch:  bins and values, see pane.append
//	entry:   time less that of the entry before | value | group; of a text its length and bytes
//
// Numbers are varints. The bytes of a float are reversed first, which makes short numbers short.
const format = 1

// maxIndex bounds block numbers, and maxCount the count of a pane.
const (
	maxIndex = 1 << 56
	maxCount = 1 << 52
)

// Changes calls put with every entry of the key's state that changed since the last Changes or
// Load, in order. The entries are the header "", if there was any Add, Touch or DropWindows, and
// blocks of 64 entries, which are written once. A nil value deletes. sub and value are valid only
// during the call of put. Changes uses scratch for them and returns it, perhaps grown. The total of
// all puts depends on the key's events alone, not on the times of Changes.
func (s *Set) Changes(c *Cell, scratch []byte, put func(sub, value []byte)) []byte {
	if !c.changed {
		return scratch
	}
	for i := range s.features {
		if ws := &s.features[i].windows; ws.exacts > 0 {
			scratch = ws.in(c).changes(&ws.entries, i, scratch, put)
		}
		if ws := &s.features[i].windows; ws.sketchForm.any() && ws.in(c).sketches != nil {
			scratch = ws.in(c).sketches.changes(i, scratch, put)
		}
	}
	c.changed = false
	if c.blank() {
		if c.stored {
			put(nil, nil)
		}
		c.stored = false
		return scratch
	}
	scratch = s.appendHeader(scratch[:0], c)
	put(nil, scratch)
	c.stored = true
	return scratch
}

// blank reports that the cell is like new. A cell with any content has a time.
func (c *Cell) blank() bool { return c.newest == none }

// subKey appends the sub-key of a block.
func subKey(b []byte, feature int, block uint64) []byte {
	b = binary.AppendUvarint(b, uint64(feature))
	return binary.BigEndian.AppendUint64(b, block)
}

// changes puts the blocks that the state lacks and deletes those that were removed.
func (x *exact) changes(e *entries, feature int, scratch []byte, put func(sub, value []byte)) []byte {
	next := x.next()
	for n := x.saved.from; n < x.saved.to; n++ {
		if n < x.first || n >= next {
			scratch = subKey(scratch[:0], feature, n)
			put(scratch, nil)
		}
	}
	for n := max(x.first, x.saved.valid); n < next; n++ {
		scratch = subKey(scratch[:0], feature, n)
		sub := len(scratch)
		scratch = x.appendEntries(scratch, e, x.blockWords(e, int(n-x.first)))
		put(scratch[:sub:sub], scratch[sub:])
	}
	x.saved = saved{from: x.first, to: next, valid: next}
	return scratch
}

func (s *Set) appendHeader(b []byte, c *Cell) []byte {
	b = append(b, format)
	b = appendTime(b, c.newest)
	for i := range s.features {
		switch f := &s.features[i]; f.kind {
		case kindElapsed:
			b = appendTime(b, c.words[f.elapsed.at])
		case kindLast:
			b = f.last.append(b, c.words)
		case kindWindows:
			b = f.windows.append(b, c)
		}
	}
	return b
}

func appendTime(b []byte, t int64) []byte {
	if t == none {
		return append(b, 0)
	}
	return binary.AppendVarint(append(b, 1), t)
}

// append appends the values.
func (l *last) append(b []byte, words []int64) []byte {
	first, second := l.values(words)
	b = binary.AppendUvarint(b, uint64(len(first)+len(second)))
	return l.appendValues(l.appendValues(b, first), second)
}

// append appends the exact windows, and then the others.
func (ws *windows) append(b []byte, c *Cell) []byte {
	if ws.exacts > 0 {
		b = ws.appendExact(b, c)
	}
	return ws.appendPanes(b, c.words, false)
}

// appendPanes appends the panes of the exact windows, or of the others.
func (ws *windows) appendPanes(b []byte, words []int64, exact bool) []byte {
	for k := range ws.list {
		if w := &ws.list[k]; w.exact == exact {
			b = w.append(b, words)
		}
	}
	return b
}

func (ws *windows) appendExact(b []byte, c *Cell) []byte {
	x := ws.in(c)
	if x.over {
		b = binary.AppendVarint(append(b, 1), x.newest)
		return ws.appendPanes(b, c.words, true)
	}
	tail := x.tailWords(&ws.entries)
	if ws.oldest && x.incomplete(&ws.entries) {
		b = binary.AppendVarint(append(b, 2), x.lost)
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, x.first)
	b = binary.AppendUvarint(b, uint64(x.blocks()))
	b = binary.AppendUvarint(b, uint64(len(tail)/ws.entry))
	return x.appendEntries(b, &ws.entries, tail)
}

// appendEntries appends entries.
func (x *exact) appendEntries(b []byte, e *entries, words []int64) []byte {
	if e.pairs() {
		return appendPairs(b, words)
	}
	before := int64(0)
	for k := 0; k < len(words); k += e.entry {
		b = binary.AppendVarint(b, words[k]-before)
		before = words[k]
		switch {
		case !e.valued():
		case e.values == Texts:
			b = x.appendText(b, words[k+1])
		default:
			b = e.appendValue(b, words[k+1])
		}
		if e.groupAt > 0 {
			b = x.appendText(b, words[k+e.groupAt])
		}
	}
	return b
}

// pairs reports whether an entry is a time and an integer.
func (e *entries) pairs() bool {
	return e.entry == 2 && e.groupAt == 0 && e.values != Texts && !e.float
}

// appendPairs is appendEntries of pairs, in a buffer that is grown once.
func appendPairs(b []byte, words []int64) []byte {
	at, before := len(b), int64(0)
	b = slices.Grow(b, len(words)*binary.MaxVarintLen64)[:at+len(words)*binary.MaxVarintLen64]
	for k := 0; k+1 < len(words); k += 2 {
		at += binary.PutVarint(b[at:], words[k]-before)
		at += binary.PutVarint(b[at:], words[k+1])
		before = words[k]
	}
	return b[:at]
}

// append appends the panes.
func (p *panes) append(b []byte, words []int64) []byte {
	newest, live := words[p.at+2], p.live(words)
	b = binary.AppendUvarint(b, uint64(len(live)/p.stride))
	if len(live) == 0 {
		return b
	}
	b = binary.AppendVarint(b, newest)
	for ; len(live) > 0; live = live[p.stride:] {
		b = binary.AppendUvarint(b, uint64(age(newest, live[0])))
		b = binary.AppendUvarint(b, uint64(live[0]>>paneBits))
		if p.sumAt > 0 && p.float {
			b = appendBits(b, live[p.sumAt])
		} else if p.sumAt > 0 {
			b = binary.AppendVarint(b, live[p.sumAt])
		}
		if p.maxAt > 0 {
			b = p.appendValue(b, live[p.maxAt])
		}
		if p.minAt > 0 {
			b = p.appendValue(b, live[p.minAt])
		}
		if p.squares {
			b = p.appendMoments(b, live, newest-age(newest, live[0]))
		}
	}
	return b
}

func (u *unit) appendValues(b []byte, values []int64) []byte {
	for _, value := range values {
		b = u.appendValue(b, value)
	}
	return b
}

func (u *unit) appendValue(b []byte, value int64) []byte {
	if u.float {
		return appendBits(b, ordered(value))
	}
	return binary.AppendVarint(b, value)
}

func appendBits(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(uint64(v)))
}

// Load returns the cell of a key. get returns the entries of the key by sub-key, nil for a missing
// one. Without a header Load returns a new cell. It fails for bytes that Changes cannot have put.
func (s *Set) Load(get func(sub []byte) ([]byte, error)) (*Cell, error) {
	c := s.NewCell()
	if err := s.Reload(c, get); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload turns c, a cell of the set or the zero Cell, into the cell that Load returns. It saves
// allocations if cells are often replaced. After an error c may be used only for another Reload.
func (s *Set) Reload(c *Cell, get func(sub []byte) ([]byte, error)) error {
	s.Reset(c)
	header, err := get(nil)
	if err != nil {
		return fmt.Errorf("load features: %w", err)
	}
	if header == nil {
		return nil
	}
	r := &reader{rest: header}
	if r.byte() != format {
		r.fail("unknown format")
	}
	if c.newest = r.optionalTime(); c.blank() {
		r.fail("no newest time")
	}
	for i := range s.features {
		if err := s.load(c, i, r, get); err != nil {
			return fmt.Errorf("load feature %s: %w", s.features[i].name, err)
		}
	}
	c.setBound(s.weight(c))
	if err := r.end(); err != nil {
		return fmt.Errorf("load features: %w", err)
	}
	c.stored = true
	return nil
}

func (s *Set) load(c *Cell, i int, r *reader, get func(sub []byte) ([]byte, error)) error {
	f := &s.features[i]
	switch f.kind {
	case kindElapsed:
		c.words[f.elapsed.at] = r.optionalTime()
	case kindLast:
		f.last.load(c, r)
	case kindWindows:
		return f.windows.load(c, i, r, get)
	}
	return r.err
}

// load loads the values.
func (l *last) load(c *Cell, r *reader) {
	n := r.upTo(uint64(l.most))
	l.reserve(c, int(n))
	for range n {
		l.push(c)[0] = r.value(&l.unit)
	}
}

// load loads the exact windows, and then the others.
func (ws *windows) load(c *Cell, feature int, r *reader, get func(sub []byte) ([]byte, error)) error {
	if ws.exacts > 0 {
		if err := ws.loadExact(c, feature, r, get); err != nil {
			return err
		}
	}
	return ws.loadPanes(c, false, feature, r, get)
}

// loadPanes loads the panes of the exact windows, or of the others.
func (ws *windows) loadPanes(c *Cell, exact bool, feature int, r *reader, get func(sub []byte) ([]byte, error)) error {
	for k := range ws.list {
		if w := &ws.list[k]; w.exact == exact {
			if w.load(c, r); r.err == nil && ws.sketchForm.any() {
				if err := ws.loadSketches(c, k, feature, get); err != nil {
					return err
				}
			}
		}
	}
	return r.err
}

func (ws *windows) loadExact(c *Cell, feature int, r *reader, get func(sub []byte) ([]byte, error)) error {
	e, x := &ws.entries, ws.in(c)
	switch form := r.upTo(2); {
	case form == 2 && e.oldest:
		x.lost = r.time()
	case form == 2:
		r.fail("entries left that may not")
	case form == 1:
		if e.dead || e.oldest || e.newestN > 0 {
			r.fail("panes of a feature that has none")
		}
		x.newest, x.over = r.time(), true
		return ws.loadPanes(c, true, feature, r, get)
	}
	x.first = r.upTo(maxIndex)
	blocks, tail := r.upTo(uint64(e.limit/blockLen)), r.upTo(blockLen-1)
	x.newest = none
	if e.newestN > 0 && (blocks > 0 || tail > uint64(e.newestN)) {
		r.fail("more entries than are kept")
	}
	for range blocks {
		sub := subKey(nil, feature, x.next())
		value, err := get(sub)
		if err != nil {
			return err
		}
		if value == nil {
			return fmt.Errorf("block %d is missing", x.next())
		}
		b := &reader{rest: value}
		x.loadEntries(e, blockLen, b)
		if err := b.end(); err != nil {
			return fmt.Errorf("block %d: %w", x.next(), err)
		}
		words := x.tailWords(e)
		tail := e.scan(words)
		x.full(e, words, tail)
		x.newest = max(x.newest, tail.last)
	}
	x.loadEntries(e, tail, r)
	rest := e.scan(x.tailWords(e))
	x.newest = max(x.newest, rest.last)
	if x.index != nil {
		x.index.tail = rest
	}
	x.newest = max(x.newest, x.lost)
	x.saved = saved{from: x.first, to: x.next(), valid: x.next()}
	return r.err
}

func (x *exact) loadEntries(e *entries, n uint64, r *reader) {
	before := int64(0)
	for range n {
		item := x.push(e.entry)
		before = r.timeFrom(before)
		item[0] = before
		switch {
		case !e.valued():
		case e.values == Texts:
			item[1] = 0 // the word of an older entry refers to no text here
			item[1] = x.loadText(r)
		default:
			item[1] = r.value(&e.unit)
		}
		if e.groupAt > 0 {
			item[e.groupAt] = x.loadText(r)
		}
	}
}

// load loads the panes.
func (p *panes) load(c *Cell, r *reader) {
	n := r.upTo(uint64(p.count))
	if n == 0 {
		return
	}
	newest := r.varint()
	if limit := maxTime/p.length + 1; newest < -limit || newest > limit {
		r.fail("pane out of range")
		newest = 0
	}
	p.reserve(c, int(n))
	c.words[p.at+2] = newest
	behind := uint64(p.count)
	for ; n > 0; n-- {
		age := r.upTo(behind - 1)
		count := r.upTo(maxCount)
		if (age == 0) != (n == 1) || count == 0 {
			r.fail("pane out of order")
			return
		}
		behind = age
		pane := p.push(c)
		p.clear(pane, newest-int64(age))
		pane[0] |= int64(count) << paneBits
		if p.sumAt > 0 && p.float {
			pane[p.sumAt] = r.bits()
		} else if p.sumAt > 0 {
			pane[p.sumAt] = r.varint()
		}
		if p.maxAt > 0 {
			pane[p.maxAt] = r.value(&p.unit)
		}
		if p.minAt > 0 {
			pane[p.minAt] = r.value(&p.unit)
		}
		if p.squares {
			p.loadMoments(pane, newest-int64(age), r)
		}
	}
}

// reader decodes the parts of an encoded entry. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.New("corrupt state: " + what)
	}
	r.rest = nil
}

// end returns the error of the reader. Remaining bytes are an error.
func (r *reader) end() error {
	if len(r.rest) > 0 {
		r.fail("bytes after the end")
	}
	return r.err
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("cut short")
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("cut short")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// upTo returns a number of at most limit.
func (r *reader) upTo(limit uint64) uint64 {
	v := r.uvarint()
	if v > limit {
		r.fail("number out of range")
		return 0
	}
	return v
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) bits() int64 { return int64(bits.ReverseBytes64(r.uvarint())) }

// finite returns the bits of a finite number.
func (r *reader) finite() int64 {
	v := r.bits()
	if !value.Finite(math.Float64frombits(uint64(v))) {
		r.fail("number is not finite")
		return 0
	}
	return v
}

func (r *reader) time() int64 { return r.timeFrom(0) }

// timeFrom returns a time that is encoded as the difference to another.
func (r *reader) timeFrom(before int64) int64 {
	d := r.varint()
	if d < -2*maxTime || d > 2*maxTime || before+d != clampTime(before+d) {
		r.fail("time out of range")
		return 0
	}
	return before + d
}

func (r *reader) optionalTime() int64 {
	if r.upTo(1) == 0 {
		return none
	}
	return r.time()
}

func (r *reader) value(u *unit) int64 {
	if u.float {
		return ordered(r.finite())
	}
	v := r.varint()
	if u.values == Ints {
		return v
	}
	if v < -maxUnits || v > maxUnits {
		r.fail("number out of range")
		return 0
	}
	return v
}
