package value

import (
	"fmt"
	"time"
)

// Times of events are microseconds since 1970 UTC. The years 2000 to 2100 are plausible. A time
// outside them most often has the wrong unit, or comes from a clock that was never set.
const (
	plausibleFrom = 946_684_800_000_000
	plausibleTo   = 4_102_444_800_000_000
)

// PlausibleTime reports whether a time is in the years 2000 to 2100.
func PlausibleTime(at float64) bool { return at >= plausibleFrom && at <= plausibleTo }

// TimeText formats a time for display. Outside the years 1678 to 9999 it returns only the year.
func TimeText(at float64) string {
	const year1678, year10000 = -9_214_560_000e6, 253_402_300_800e6
	if at >= year1678 && at < year10000 {
		return time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15:04:05Z")
	}
	return fmt.Sprintf("the year %.0f", 1970+at/(365.2425*86400e6))
}
