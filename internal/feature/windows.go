package feature

// windows is a feature of windows of event time. Each window in panes has its own;
// the exact ones read one list of entries.
type windows struct {
	list []window // in the order of the columns
	entries
	exacts int // exact windows
}

// window is a Window made ready.
type window struct {
	name  string
	panes       // of an exact window those that it goes over to
	size  int64 // microseconds
	exact bool
}

// add folds a value into every window.
func (ws *windows) add(c *Cell, t, value int64) {
	if ws.exacts > 0 {
		ws.addExact(c, t, value)
	}
	if ws.exacts == len(ws.list) {
		return
	}
	for k := range ws.list {
		if w := &ws.list[k]; !w.exact {
			w.add(c, t, value)
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

// refuses reports that the windows take no entry of time t, as they are full.
func (ws *windows) refuses(c *Cell, t int64) bool {
	return ws.dead && ws.in(c).refuses(&ws.entries, t)
}

// over reports whether the exact windows are read from panes.
func (ws *windows) over(c *Cell) bool { return ws.exacts > 0 && ws.in(c).over }
