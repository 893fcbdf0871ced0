//go:build unix

package server

import (
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// pending reports whether a connection has unread bytes.
func pending(c net.Conn) bool {
	for {
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = above.NetConn()
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _, _ = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) // an error means that there are no bytes
	})
	return err == nil && n > 0
}

// filesMax returns how many files the process may open.
func filesMax() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // an unknown limit does not limit the server
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
