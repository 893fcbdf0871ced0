package group

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// windows holds the windows of one key and one value of `by` that have not ended. A window of size
// ends at each multiple of every that has an event before it within size.
//
//  1. Time is divided into panes of every. A pane stores no events, only a fold of them.
//  2. A window consists of the panes within it. It ends once, before the first event with a
//     watermark at or after its end. So the watermark alone determines which windows have ended.
//  3. An event counts in the windows that have not ended. It is late if all have.
type windows struct {
	spec  *operator.Group
	name  string  // its state key
	panes []*pane // panes of windows that have not ended, by start
	next  int64   // end of the first window that has not ended
	at    int64   // time of its entry in the queue
	dirty bool    // next must be stored
}

// pane holds the events from a multiple of every to the next.
type pane struct {
	fold
	key   string // key of its entry in the state
	start int64
	dirty bool
	gone  bool // its windows have ended
}

// overlap reports whether windows of a group have panes in common.
func overlap(g *operator.Group) bool { return g.Size > g.Every }

// floor returns the last multiple of every at or before a time.
func floor(t, every int64) int64 {
	n := t % every
	if n < 0 {
		n += every
	}
	return t - n
}

// put adds an event to its windows. The first error is the event's.
func (s *Set) put(e *Event, m *member, by string) (bytes int, failure error) {
	g, counts := e.Group, &s.counts[e.Group.Index]
	every, size := g.Every.Microseconds(), g.Size.Microseconds()
	start := floor(e.Time, every)
	if end := start + size; end <= e.Watermark {
		if counts.Late.Add(1); g.Late == operator.LateDrop {
			return 0, nil
		}
		return 0, fmt.Errorf("comes after its window of %s %q ended, at %s", g.By.Name, by, time.UnixMicro(end).UTC().Format(time.RFC3339Nano))
	}
	name := string(statekey.AppendGroup(nil, g.Name, e.Key, by))
	w := s.windows[name]
	if w == nil {
		w = &windows{spec: g, name: name, next: never, at: never}
	}
	i, found := slices.BinarySearchFunc(w.panes, start, func(p *pane, start int64) int { return cmp.Compare(p.start, start) })
	if !found {
		if s.open[g.Index] >= g.Open {
			return 0, fmt.Errorf("would open more than max.groups (%d) windows of %s", g.Open, g.Name)
		}
		w.panes = slices.Insert(w.panes, i, &pane{key: string(statekey.AppendPane(nil, name, start)), start: start, fold: newFold(g)})
		s.windows[name] = w
		s.tally(w, 1, 0)
	}
	p := w.panes[i]
	before := p.size()
	p.take(g, m)
	s.tally(w, 0, p.size()-before)
	s.change(p)
	if next := max(start, floor(max(e.Watermark, start), every)) + every; next < w.next {
		s.awaitWindow(w, next)
	}
	return p.size(), nil
}

// tally counts panes that open or close, and their bytes.
func (s *Set) tally(w *windows, panes, bytes int) {
	s.open[w.spec.Index] += panes
	s.counts[w.spec.Index].Open.Add(int64(panes))
	s.counts[w.spec.Index].Bytes.Add(int64(bytes))
}

// change marks a pane to be stored.
func (s *Set) change(p *pane) {
	if !p.dirty {
		p.dirty = true
		s.panes = append(s.panes, p)
	}
}

// awaitWindow sets and queues the end of the next window.
func (s *Set) awaitWindow(w *windows, next int64) {
	if w.next = next; overlap(w.spec) && !w.dirty {
		w.dirty = true
		s.moved = append(s.moved, w)
	}
	if w.next < w.at {
		w.at = w.next
		s.queue(w.at, w.name)
	}
}

// comeWindow ends the window that is due at an entry of the queue. The entry may be outdated.
func (s *Set) comeWindow(w *windows, at int64) {
	if w.at != at {
		return
	}
	if w.at = never; w.next > at {
		s.awaitWindow(w, w.next)
		return
	}
	every, size := w.spec.Every.Microseconds(), w.spec.Size.Microseconds()
	all := newFold(w.spec)
	for _, p := range w.panes {
		if p.start >= at {
			break
		}
		all.merge(w.spec, &p.fold)
	}
	e := &Ended{Group: w.spec, Reason: Window, Time: at, Start: at - size, Complete: true, Bytes: len(all.first.value), name: w.name}
	e.gather(&all)
	s.counts[w.spec.Index].Ended[Window].Add(1)
	s.ended = append(s.ended, e)
	for len(w.panes) > 0 && w.panes[0].start <= at-size {
		p := w.panes[0]
		w.panes, p.gone = slices.Delete(w.panes, 0, 1), true
		s.tally(w, -1, -p.size())
		s.change(p)
	}
	next := int64(never)
	if len(w.panes) > 0 {
		next = max(at, w.panes[0].start) + every
	} else {
		delete(s.windows, w.name)
	}
	s.awaitWindow(w, next)
}

// windowChanges calls write with the changes of windows.
func (s *Set) windowChanges(write func(key, data []byte)) {
	for _, p := range s.panes {
		if p.dirty = false; p.gone {
			write([]byte(p.key), nil)
		} else {
			write([]byte(p.key), p.append(nil))
		}
	}
	for _, w := range s.moved {
		if w.dirty = false; s.windows[w.name] == w {
			write([]byte(w.name), binary.AppendVarint([]byte{windowsVersion}, w.next))
		} else if s.windows[w.name] == nil {
			write([]byte(w.name), nil)
		}
	}
	s.panes, s.moved = s.panes[:0], s.moved[:0]
}

const (
	windowsVersion = 3 // version of the entry under the key of a group: see seriesVersion
	paneVersion    = 1
)

// append appends the stored form of a pane.
func (p *pane) append(dst []byte) []byte { return p.fold.append(append(dst, paneVersion)) }

// parse parses the output of append.
func (p *pane) parse(g *operator.Group, data []byte) bool {
	r := packed.Reader{Rest: data}
	return r.Byte() == paneVersion && p.fold.parse(g, &r) && r.Whole()
}

// foreign returns the error for open groups or windows of a step that the pipeline lacks.
func (s *Set) foreign(group string) error {
	return fmt.Errorf("groups of %q are open in %v, but the pipeline has no such step: run the earlier file until they have ended", group, s.id)
}

// restoreWindows restores the end of the next window.
func (s *Set) restoreWindows(spec *operator.Group, group, name string, value []byte) error {
	r := packed.Reader{Rest: value}
	if v := r.Byte(); v != windowsVersion || spec == nil || !spec.Windows() {
		return s.foreign(group)
	}
	w := &windows{spec: spec, name: name, next: r.Signed(), at: never}
	if !r.Whole() {
		return fmt.Errorf("windows of %q in %v: %w", group, s.id, packed.ErrDamaged)
	}
	s.windows[name] = w
	return nil
}

// restorePane restores a pane from the state.
func (s *Set) restorePane(key, value []byte) error {
	name, start, ok := statekey.PaneOf(key)
	var group string
	if ok {
		group, _, _, ok = statekey.GroupOf([]byte(name))
	}
	if !ok {
		return fmt.Errorf("windows of %v: %w", s.id, packed.ErrDamaged)
	}
	spec := s.plan.find(group)
	if spec == nil || !spec.Windows() {
		return s.foreign(group)
	}
	p := &pane{key: string(key), start: start}
	if start != floor(start, spec.Every.Microseconds()) || !p.parse(spec, value) {
		return fmt.Errorf("windows of %q in %v: %w", group, s.id, packed.ErrDamaged)
	}
	w := s.windows[name]
	if w == nil {
		w = &windows{spec: spec, name: name, next: never, at: never}
		s.windows[name] = w
	}
	w.panes = append(w.panes, p)
	s.tally(w, 1, p.size())
	return nil
}

// resumeWindows sorts the panes of restored windows, and queues their next end.
func (s *Set) resumeWindows(w *windows) error {
	slices.SortFunc(w.panes, func(a, b *pane) int { return cmp.Compare(a.start, b.start) })
	if len(w.panes) == 0 || overlap(w.spec) && w.next == never {
		return fmt.Errorf("windows of %q in %v: %w", w.spec.Name, s.id, packed.ErrDamaged)
	}
	if !overlap(w.spec) {
		w.next = w.panes[0].start + w.spec.Size.Microseconds()
	}
	w.at = w.next
	s.queue(w.at, w.name)
	return nil
}
