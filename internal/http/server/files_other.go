//go:build !unix

package server

import "math"

// filesMax returns how many files the process may open: there is no such bound.
func filesMax() int { return math.MaxInt32 }
