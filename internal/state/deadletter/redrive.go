package deadletter

import ()

// Resume positions of events that failed before the first step.
const (
	Start = "start"
	Late  = "late"
)

// NeedsRow reports whether an event with this resume position needs the row that it had when it
// failed.
func NeedsRow(words string) bool { return words != Start && words != Late }
