package term

import "time"

// Seconds is a time with three digits.
func Seconds(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
