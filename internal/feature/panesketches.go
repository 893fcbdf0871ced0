package feature

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/afterbay/afterbay/internal/event/hash"
)

// sketchForm says which sketches the panes of a feature have.
type sketchForm struct{ bins, members bool }

func sketchesOf(r *reading) sketchForm {
	return sketchForm{bins: r.any(P50, P95, P99), members: r.any(Distinct)}
}

func (f *sketchForm) any() bool { return f.bins || f.members }

// item converts an entry for sketches. Zeros are equal, regardless of sign.
func (f *sketchForm) item(u *unit, texts *texts, value int64) (of item) {
	if f.bins {
		of.bin = binOf(u.near(value))
	}
	switch {
	case !f.members:
	case u.values == Texts:
		of.hash = uint64(hash.Of(texts.of(value), hashSalt))
	default:
		var room [8]byte
		binary.BigEndian.PutUint64(room[:], uint64(u.unsigned(value)))
		of.hash = uint64(hash.Of(room[:], hashSalt))
	}
	return of
}

const hashSalt = "distinct"

// pane is the sketch of a pane of a window, with its index.
type pane struct {
	index int64
	*sketch
}

type sketch struct {
	bins
	members
	changed, stored bool // since the last Changes; the state has an entry for it
}

// beyond reports whether the sketch is less exact than the error of its bins.
func (s *sketch) beyond() bool { return s.collapsed || s.registers != nil }

// sketched holds the sketches of the panes of one window and key, and their sum.
//
//  1. It has the same panes as the window, each with the same entries.
//  2. The sum covers the panes of the last read: from < index <= to. A read moves
//     these edges. An addition to a pane between them is also added to the sum.
//     The sum is derived and not stored.
//  3. Integers are subtracted as they were added. Only the greatest ranks of panes
//     with registers are recomputed after a pane is dropped.
type sketched struct {
	form     sketchForm
	panes    []pane // the oldest first
	beyond   int    // number of panes with a sketch beyond its bound
	from, to int64
	bins     binSum
	members  memberSum
	undo     *savedSketch // the last Save, if it covered this window
}

// gone names a sketch that is still in the state although the window dropped its pane.
type gone struct {
	window int
	index  int64
}

// sketches holds the sketches of a feature and key, by window. A window without panes may be nil.
type sketches struct {
	windows []*sketched
	gone    []gone
}

// sketched returns the sketches of window k, or nil if it has had no pane.
func (ws *windows) sketched(c *Cell, k int) *sketched {
	x := ws.in(c)
	if x.sketches == nil {
		return nil
	}
	return x.sketches.windows[k]
}

// sketchable returns the sketches of window k. It creates them if needed.
func (ws *windows) sketchable(c *Cell, k int) *sketched {
	x := ws.in(c)
	if x.sketches == nil {
		x.sketches = &sketches{windows: make([]*sketched, len(ws.list))}
	}
	if x.sketches.windows[k] == nil {
		x.sketches.windows[k] = &sketched{form: ws.sketchForm}
	}
	return x.sketches.windows[k]
}

// sketch adds an entry of time t to the sketches of window k. The panes already have the entry.
func (ws *windows) sketch(c *Cell, k int, t int64, of item) {
	if !ws.sketchForm.any() {
		return
	}
	x, w := ws.in(c), &ws.list[k]
	newest := c.words[w.at+2]
	i := w.index(t, newest)
	if newest-i >= w.count {
		return
	}
	ws.sketchable(c, k).add(i, of, newest-w.count, func(p pane) { x.sketches.left(k, p) })
}

// itemOf converts an entry for sketches.
func (ws *windows) itemOf(c *Cell, value int64) item {
	if !ws.sketchForm.any() {
		return item{}
	}
	return ws.item(&ws.unit, ws.in(c).texts, value)
}

// beyond reports whether the sketch of any pane is beyond its bound.
func (s *sketches) beyond() bool {
	return s != nil && slices.ContainsFunc(s.windows, func(w *sketched) bool { return w != nil && w.beyond > 0 })
}

// left records that a pane was dropped. If its sketch is in the state, the next Changes deletes it.
func (s *sketches) left(window int, p pane) {
	if p.stored {
		s.gone = append(s.gone, gone{window, p.index})
	}
}

// dropSketches drops the panes of window k.
func (ws *windows) dropSketches(c *Cell, k int) {
	if !ws.sketchForm.any() {
		return
	}
	x := ws.in(c)
	if x.sketches == nil || x.sketches.windows[k] == nil {
		return
	}
	for _, p := range x.sketches.windows[k].panes {
		x.sketches.left(k, p)
	}
	x.sketches.windows[k] = nil
}

// add adds an entry to the pane of index i. It drops the panes up to old.
func (s *sketched) add(i int64, of item, old int64, left func(pane)) {
	drop := s.after(old)
	at, there := slices.BinarySearchFunc(s.panes, i, func(p pane, i int64) int { return cmp.Compare(p.index, i) })
	if s.undo != nil && s.undo.of == s {
		s.undo.keep(s, i, there, drop)
	}
	if drop > 0 {
		for _, p := range s.panes[:drop] {
			left(p)
			if s.covers(p.index) {
				s.leave(p)
			}
			s.count(p, -1)
		}
		s.panes, at = slices.Delete(s.panes, 0, drop), at-drop
	}
	if !there {
		s.panes = slices.Insert(s.panes, at, pane{i, &sketch{}})
	}
	p := s.panes[at]
	s.count(p, -1)
	bins, members := &s.bins, &s.members
	if !s.covers(i) {
		bins, members = nil, nil
	}
	if s.form.bins {
		p.bins.add(of.bin, bins)
	}
	if s.form.members {
		p.members.add(of.hash, members)
	}
	p.changed = true
	s.count(p, 1)
}

func (s *sketched) covers(i int64) bool { return i > s.from && i <= s.to }

func (s *sketched) count(p pane, n int) {
	if p.beyond() {
		s.beyond += n
	}
}

// after returns the position of the first pane after index i.
func (s *sketched) after(i int64) int {
	at, _ := slices.BinarySearchFunc(s.panes, i+1, func(p pane, i int64) int { return cmp.Compare(p.index, i) })
	return at
}

// between returns the panes in (from, to].
func (s *sketched) between(from, to int64) []pane {
	if from >= to {
		return nil
	}
	return s.panes[s.after(from):s.after(to)]
}

func (s *sketched) enter(p pane) {
	s.bins.merge(&p.sketch.bins, 1)
	s.members.enter(&p.sketch.members)
}

func (s *sketched) leave(p pane) {
	s.bins.merge(&p.sketch.bins, -1)
	s.members.leave(&p.sketch.members)
}

// read makes the sum cover the panes in (from, to].
func (s *sketched) read(from, to int64) {
	if from >= s.to || to <= s.from {
		s.forget()
		s.from, s.to = from, from
	}
	for _, p := range s.between(s.from, from) {
		s.leave(p)
	}
	for _, p := range s.between(to, s.to) {
		s.leave(p)
	}
	for _, p := range s.between(from, s.from) {
		s.enter(p)
	}
	for _, p := range s.between(s.to, to) {
		s.enter(p)
	}
	s.from, s.to = from, to
}

// forget makes the sum cover no panes.
func (s *sketched) forget() {
	s.from, s.to = 0, 0
	clear(s.members.panes)
	s.bins, s.members = binSum{octaves: s.bins.octaves[:0]}, memberSum{panes: s.members.panes}
}

// distinct returns the number of different values in the sum.
func (s *sketched) distinct() float64 {
	m := &s.members
	if m.estimated == 0 {
		return float64(len(m.panes))
	}
	if !m.known {
		m.learn(s.between(s.from, s.to))
	}
	return estimate(&m.ranks)
}

// paned takes the sketches of window k, and its number of entries.
func (l *look) paned(c *Cell, k int) {
	l.reset()
	l.panes = true
	w := &l.windows.list[k]
	l.total, l.sketched = w.read(c.words, l.at).n, l.windows.sketched(c, k)
	if l.sketched != nil {
		newest := c.words[w.at+2]
		i := w.index(l.at, newest)
		l.sketched.read(max(i, newest)-w.count, i)
	}
}

// ofPanes returns an aggregate from the sketches of panes.
func (l *look) ofPanes(a Aggregate) Value {
	v := Value{Number: float64(l.total), Present: true}
	switch {
	case a == Count:
	case l.total == 0:
		return Value{Present: a == Distinct}
	case a == Distinct:
		v.Number = l.sketched.distinct()
	default:
		v.Number = l.middle(l.sketched.bins.percentile(int64(percent(a))))
	}
	return v
}

// sketchKey appends the sub-key of a sketch, which is one byte longer than that of a block.
func sketchKey(b []byte, feature int, g gone) []byte {
	b = append(binary.AppendUvarint(b, uint64(feature)), byte(g.window))
	return binary.BigEndian.AppendUint64(b, uint64(g.index))
}

// changes puts the changed sketches, and deletes those of dropped panes.
func (s *sketches) changes(feature int, scratch []byte, put func(sub, value []byte)) []byte {
	for _, g := range s.gone {
		scratch = sketchKey(scratch[:0], feature, g)
		put(scratch, nil)
	}
	s.gone = s.gone[:0]
	for k, w := range s.windows {
		if w == nil {
			continue
		}
		for _, p := range w.panes {
			if !p.changed {
				continue
			}
			scratch = sketchKey(scratch[:0], feature, gone{k, p.index})
			sub := len(scratch)
			scratch = p.append(scratch, &w.form)
			put(scratch[:sub:sub], scratch[sub:])
			p.changed, p.stored = false, true
		}
	}
	return scratch
}

// loadSketches loads the sketches of window k. Its panes are already loaded.
func (ws *windows) loadSketches(c *Cell, k, feature int, get func(sub []byte) ([]byte, error)) error {
	w := &ws.list[k]
	newest := c.words[w.at+2]
	for live := w.live(c.words); len(live) > 0; live = live[w.stride:] {
		index := newest - age(newest, live[0])
		value, err := get(sketchKey(nil, feature, gone{k, index}))
		if err != nil {
			return err
		}
		r := &reader{rest: value}
		if value == nil {
			r.fail("a sketch is missing")
		}
		s, p := ws.sketchable(c, k), pane{index, &sketch{stored: true}}
		if p.load(&ws.sketchForm, live[0]>>paneBits, r); r.end() != nil {
			return r.err
		}
		s.panes = append(s.panes, p)
		s.count(p, 1)
	}
	return nil
}

// size returns the approximate memory of the sketches.
func (s *sketches) size() (n int) {
	for _, w := range s.windows {
		if w == nil {
			continue
		}
		n += int(unsafe.Sizeof(*w)) + cap(w.panes)*int(unsafe.Sizeof(pane{}))
		for _, p := range w.panes {
			n += int(unsafe.Sizeof(*p.sketch)) + 8*cap(p.words) + 8*cap(p.hashes) + cap(p.registers)
		}
		n += cap(w.bins.octaves)*int(unsafe.Sizeof(octave{})) + cap(w.members.registers)
		n += mapBytes * len(w.members.panes)
	}
	return n + cap(s.gone)*int(unsafe.Sizeof(gone{}))
}

const mapBytes = 24 // of an entry of memberSum.panes, including free slots

// savedSketch holds the earlier sketches of a window: the pane that the next addition changes, and
// the panes that it drops.
type savedSketch struct {
	of      *sketched
	kept    bool // an addition followed
	index   int64
	there   bool
	was     sketch
	dropped []pane
}

// save tells s to keep what its next addition changes.
func (u *savedSketch) save(s *sketched) {
	u.of, u.kept = s, false
	if s != nil {
		s.undo = u
	}
}

// keep keeps what an addition changes: the pane of index i, and the panes that it drops.
func (u *savedSketch) keep(s *sketched, i int64, there bool, drop int) {
	s.undo = nil
	u.kept, u.index, u.there, u.dropped = true, i, there, append(u.dropped[:0], s.panes[:drop]...)
	if there {
		u.was.become(s.panes[s.after(i-1)].sketch)
	}
}

// become copies o into s. They share no memory.
func (s *sketch) become(o *sketch) {
	words, hashes, registers := s.words[:0], s.hashes[:0], s.registers[:0]
	*s = *o
	s.words, s.hashes, s.registers = append(words, o.words...), append(hashes, o.hashes...), append(registers, o.registers...)
}

// restore undoes the addition, if there was one.
func (u *savedSketch) restore() {
	s := u.of
	if s == nil || !u.kept {
		return
	}
	u.kept = false
	s.forget()
	at := s.after(u.index - 1)
	s.count(s.panes[at], -1)
	if u.there {
		p := s.panes[at]
		if p.become(&u.was); len(p.registers) == 0 {
			p.registers = nil
		}
		s.count(p, 1)
	} else {
		s.panes = slices.Delete(s.panes, at, at+1)
	}
	s.panes = slices.Insert(s.panes, 0, u.dropped...)
	for _, p := range u.dropped {
		s.count(p, 1)
	}
}
