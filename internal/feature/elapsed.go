package feature

// elapsed is a feature of the time since the newest event before.
type elapsed struct {
	at int // of the time, in the front
}

// add takes the time of an event.
func (e elapsed) add(words []int64, t int64) { words[e.at] = max(words[e.at], t) }

// read returns the seconds since the greatest time added: 0 where that is after t,
// and empty where there is none.
func (e elapsed) read(words []int64, t int64, empty float64) float64 {
	if last := words[e.at]; last != none {
		return float64(max(0, t-last)) / 1e6
	}
	return empty
}
