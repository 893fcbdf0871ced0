package control

import "time"

// round is what a Concurrency knows of the calls that began since its limit last changed, or since as many of them
// ended as make a round.
type round struct {
	number   uint64
	began    time.Time // its first call
	ends     int       // of its calls: answers, and faults
	took     time.Duration
	answers  int // of its calls
	answered time.Duration
	all      int  // answers since began, also of calls from before
	reached  bool // the limit was, while it lasted
}

// mean is how long its answers took; 0 without any.
func (r *round) mean() time.Duration {
	if r.answers == 0 {
		return 0
	}
	return r.answered / time.Duration(r.answers)
}

// rate is how many answers a second there were.
func (r *round) rate(now time.Time) float64 {
	return float64(r.all) / max(now.Sub(r.began), time.Nanosecond).Seconds()
}
