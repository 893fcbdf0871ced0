package feature

// Saved is a copy of a cell made by Save. The zero value is ready to use.
type Saved struct {
	newest          int64
	changed, stored bool
	bound           float32
	words           []int64
	exacts          []savedExact
}

// savedExact is a copy of a list of entries. It shares memory with the list. One Add only appends
// to that memory, with one exception: it may overwrite the first item if all entries are removed.
type savedExact struct {
	exact
	index index
	first [3]int64
	texts texts

	windows   []*sketched
	additions []savedSketch // what the next addition to each window changes
	gone      int           // number of sketches in gone
}

// Save copies the state of c into to. Undo can restore it after at most one Add of each feature
// (which may have failed) and any number of Reads.
func (s *Set) Save(c *Cell, to *Saved) {
	to.newest, to.changed, to.stored, to.bound = c.newest, c.changed, c.stored, c.bound
	to.words = append(to.words[:0], c.words...)
	if len(to.exacts) < len(c.exacts) {
		to.exacts = make([]savedExact, len(c.exacts))
	}
	for i := range s.features {
		ws := &s.features[i].windows
		if ws.exacts == 0 && !ws.sketchForm.any() {
			continue
		}
		x := ws.in(c)
		if len(x.words) > 0 && len(x.words)+ws.entry > cap(x.words) {
			x.room(ws.entry) // an Add would make room, and move entries
		}
		kept := &to.exacts[ws.entries.at]
		kept.exact = *x
		if x.index != nil {
			kept.index = *x.index
		}
		copy(kept.first[:], x.words)
		kept.saveSketches(x)
		if x.texts != nil {
			kept.texts = *x.texts
		}
	}
}

// saveSketches saves the sketches of a feature.
func (kept *savedExact) saveSketches(x *exact) {
	if x.sketches == nil {
		return
	}
	kept.gone, kept.windows = len(x.sketches.gone), append(kept.windows[:0], x.sketches.windows...)
	kept.additions = append(kept.additions[:cap(kept.additions)], make([]savedSketch, max(0, len(kept.windows)-cap(kept.additions)))...)
	for k, w := range kept.windows {
		kept.additions[k].save(w)
	}
}

// undoSketches restores the sketches of a feature.
func (kept *savedExact) undoSketches(x *exact) {
	if x.sketches == nil {
		return
	}
	x.sketches.gone = x.sketches.gone[:kept.gone]
	copy(x.sketches.windows, kept.windows)
	for k := range kept.windows {
		kept.additions[k].restore()
	}
}

// Undo restores c to its state at the time of from.
func (s *Set) Undo(c *Cell, from *Saved) {
	c.newest, c.changed, c.stored, c.bound = from.newest, from.changed, from.stored, from.bound
	c.words = append(c.words[:0], from.words...)
	for i := range c.exacts {
		kept, x := &from.exacts[i], &c.exacts[i]
		*x = kept.exact
		if x.index != nil {
			*x.index = kept.index
		}
		copy(x.words, kept.first[:])
		if x.texts != nil {
			*x.texts = kept.texts
		}
		kept.undoSketches(x)
	}
}
