package feature

// elapsed is a feature of the time since the previous event.
type elapsed struct {
	at int // index of the time in the front
}

// add records the time of an event.
func (e elapsed) add(words []int64, t int64) { words[e.at] = max(words[e.at], t) }

// read returns the seconds since the greatest time added. It returns 0 if that is after t, and
// empty if no time was added.
func (e elapsed) read(words []int64, t int64, empty float64) float64 {
	if last := words[e.at]; last != none {
		return float64(max(0, t-last)) / 1e6
	}
	return empty
}
