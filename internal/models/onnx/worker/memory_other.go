//go:build !linux

package worker

// limitMemory does nothing: the system has no limit that counts memory that is
// in use.
func limitMemory(int64) error { return nil }
