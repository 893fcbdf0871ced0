package metric

import "time"

// Rounded converts seconds to a duration with three significant digits, for columns.
func Rounded(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
