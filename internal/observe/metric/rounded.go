package metric

import "time"

// Rounded is a time in seconds as columns have it: with three digits.
func Rounded(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
