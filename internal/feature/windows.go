package feature

import (
	"cmp"
	"slices"
)

// windows is a feature of windows of event time. Each window in panes has its own panes; the exact
// windows read one list of entries.
type windows struct {
	list []window // in the order of the columns
	entries
	sketchForm     // sketches of panes
	exacts     int // number of exact windows
}

// window is a compiled Window.
type window struct {
	name  string
	panes       // for an exact window, the panes that it overflows into
	size  int64 // microseconds
	exact bool
}

func newWindows(spec *Spec, r *reading, in *layout) windows {
	limit := defaultEntries
	if r.looks {
		limit = defaultLooked
	}
	ws := windows{entries: entries{unit: r.unit, entry: 2, limit: cmp.Or(spec.Max, limit), dead: spec.Overflow == OverflowDead, oldest: spec.Overflow == OverflowOldest}}
	if spec.Last > 0 {
		ws.exacts, ws.longest, ws.newestN = 1, unbounded, spec.Last
	}
	if r.count {
		ws.entry = 1
	}
	if r.per {
		ws.groupAt = ws.entry
		ws.entry++
	}
	if slices.ContainsFunc(spec.Windows, func(w Window) bool { return w.Pane > 0 || spec.Overflow == OverflowPane }) {
		ws.sketchForm = sketchesOf(r)
	}
	form, words := formOf(r)
	for _, spec := range spec.Windows {
		w := window{name: spec.Name, size: spec.Size.Microseconds(), exact: spec.Pane == 0}
		room := place{stride: words, most: 2 * maxPanes, windowed: true}
		if w.exact {
			w.grid = grid{length: w.size / sparePanes, count: sparePanes}
			ws.exacts++
			ws.longest = max(ws.longest, w.size)
		} else {
			w.grid = grid{length: spec.Pane.Microseconds(), count: int64(spec.Size / spec.Pane)}
			room.least = 1
		}
		room.based = w.count > few
		w.paneForm, w.place = form, in.queue(room, 1)
		ws.list = append(ws.list, w)
	}
	return ws
}

// add folds a value into every window.
func (ws *windows) add(c *Cell, t, value int64) {
	if ws.exacts > 0 {
		ws.addExact(c, t, value)
	}
	if ws.exacts == len(ws.list) {
		return
	}
	of := ws.itemOf(c, value)
	for k := range ws.list {
		if w := &ws.list[k]; !w.exact {
			w.add(c, t, value)
			ws.sketch(c, k, t, of)
		}
	}
}

// total returns the total of a window as of time t.
func (ws *windows) total(c *Cell, w *window, t int64) total {
	if w.exact {
		if x := ws.in(c); !x.over {
			return ws.entries.read(x, w.size, t)
		}
	}
	return w.read(c.words, t)
}

// moments returns the moments of a window as of time t.
func (ws *windows) moments(c *Cell, w *window, t int64) moments {
	if w.exact {
		if x := ws.in(c); !x.over {
			return ws.entries.readMoments(x, w.size, t)
		}
	}
	return w.readMoments(c.words, t)
}

// refuses reports that the windows are full and refuse an entry of time t.
func (ws *windows) refuses(c *Cell, t int64) bool {
	return ws.dead && ws.in(c).refuses(&ws.entries, t)
}

// approximate reports whether the exact windows are read from panes, or lack entries.
func (ws *windows) approximate(c *Cell) bool {
	if ws.exacts > 0 && (ws.in(c).over || ws.oldest && ws.in(c).incomplete(&ws.entries)) {
		return true
	}
	return ws.sketchForm.any() && ws.in(c).sketches.beyond()
}

// over reports whether the exact windows are read from panes.
func (ws *windows) over(c *Cell) bool { return ws.exacts > 0 && ws.in(c).over }

// addExact appends an entry.
func (ws *windows) addExact(c *Cell, t, value int64) {
	x := ws.in(c)
	switch {
	case x.empty():
		x.newest = t
	case x.over && t-ws.longest >= x.newest:
		for k := range ws.list {
			if w := &ws.list[k]; w.exact {
				w.empty(c)
				ws.dropSketches(c, k)
			}
		}
		texts := x.texts
		x.reset()
		x.newest, x.texts = t, texts
	case t > x.newest:
		x.newest = t
	case t <= x.newest-ws.longest:
		return
	}
	if !x.over {
		x.expire(&ws.entries)
		switch full := len(x.live()) >= ws.limit*ws.entry; {
		case ws.newestN > 0:
			x.shorten(&ws.entries)
		case full && ws.oldest:
			x.dropOldest(&ws.entries)
		case full:
			ws.overflow(c)
			ws.addOver(c, t, value)
			return
		}
		x.append(&ws.entries, t, value)
		return
	}
	ws.addOver(c, t, value)
}

// overflow turns the entries into panes. Entries that no window reads are too old for any pane.
func (ws *windows) overflow(c *Cell) {
	x := ws.in(c)
	live, newest, texts := x.live(), x.newest, x.texts
	x.reset()
	x.newest, x.over, x.texts = newest, true, texts
	for k := 0; k < len(live); k += ws.entry {
		ws.addOver(c, live[k], live[k+ws.entry-1])
	}
}

func (ws *windows) addOver(c *Cell, t, value int64) {
	of := ws.itemOf(c, value)
	for k := range ws.list {
		if w := &ws.list[k]; w.exact {
			w.add(c, t, value)
			ws.sketch(c, k, t, of)
		}
	}
}
