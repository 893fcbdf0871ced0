package control

import "time"

// round counts the calls that a Concurrency compares. They began since its limit last changed, or
// since the last round ended.
type round struct {
	number   uint64
	began    time.Time // start of its first call
	ends     int       // ended calls of the round: answers and faults
	took     time.Duration
	answers  int // answers to calls of the round
	answered time.Duration
	all      int  // answers since began, including those to earlier calls
	reached  bool // the limit was reached during the round
}

// mean returns the mean time of the round's answers; 0 without any.
func (r *round) mean() time.Duration {
	if r.answers == 0 {
		return 0
	}
	return r.answered / time.Duration(r.answers)
}

// rate returns the number of answers per second.
func (r *round) rate(now time.Time) float64 {
	return float64(r.all) / max(now.Sub(r.began), time.Nanosecond).Seconds()
}
