package feature

import (
	"errors"
	"fmt"
)

// Forget empties c, for a key with no unexpired state. The next Changes deletes it from the state.
func (s *Set) Forget(c *Cell) {
	s.DropWindows(c)
	s.layout.clear(c)
	for i := range c.exacts {
		c.exacts[i].reset()
	}
	c.newest = none
}

// HeaderWindowless reports whether a header that Changes put has only empty windows, as after
// DropWindows. It is false for a header that Load would refuse.
func (s *Set) HeaderWindowless(header []byte) bool {
	if s.panes+s.exacts == 0 {
		return true
	}
	c, err := s.Load(func(sub []byte) ([]byte, error) {
		if len(sub) > 0 {
			return nil, errHasBlock
		}
		return header, nil
	})
	return err == nil && s.Windowless(c)
}

// Windowless reports whether all windows of the cell are empty, as after DropWindows.
func (s *Set) Windowless(c *Cell) bool {
	for k := range s.layout.places {
		if p := &s.layout.places[k]; p.windowed && len(p.live(c.words)) > 0 {
			return false
		}
	}
	for i := range s.features {
		if ws := &s.features[i].windows; ws.exacts > 0 && ws.newestN == 0 && !ws.in(c).empty() {
			return false
		}
	}
	return true
}

// errHasBlock ends a load that reads only the header.
var errHasBlock = errors.New("a window has a block")

// HeaderTime returns the newest time of a key, in microseconds, from the header
// that Changes put, without loading the cell.
func HeaderTime(header []byte) (int64, error) {
	r := &reader{rest: header}
	if r.byte() != format {
		r.fail("unknown format")
	}
	t := r.optionalTime()
	if t == none {
		r.fail("no newest time")
	}
	if r.err != nil {
		return 0, fmt.Errorf("load features: %w", r.err)
	}
	return t, nil
}
