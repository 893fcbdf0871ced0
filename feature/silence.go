package feature

import "fmt"

// Forget empties c, for a key that has been silent for so long that nothing of
// it is kept. The next Changes deletes it from the state.
func (s *Set) Forget(c *Cell) {
	s.DropWindows(c)
	for i := range c.elapsed {
		c.elapsed[i] = none
	}
	clear(c.lasts)
	c.newest = none
}

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
