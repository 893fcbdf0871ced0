//go:build unix

package server

import (
	"math"

	"golang.org/x/sys/unix"
)

// filesMax returns how many files the process may open.
func filesMax() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // what cannot be asked is no bound here
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
