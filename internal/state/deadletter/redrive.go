package deadletter

import ()

// Words for events that failed before the first step.
const (
	Start = "start"
	Late  = "late"
)

// NeedsRow reports whether an event that goes on as the words say needs the row
// that it had when it failed.
func NeedsRow(words string) bool { return words != Start && words != Late }
