//go:build !unix

package server

import (
	"math"
	"net"
)

// pending reports whether bytes of a connection wait to be read, which is not known.
func pending(net.Conn) bool { return false }

// filesMax returns how many files the process may open: there is no such bound.
func filesMax() int { return math.MaxInt32 }
