// Package memnet is a network in memory, for tests: it works in virtual time.
package memnet

import (
	"net"
	"sync"
)

// Listener accepts connections that Give passes to it.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Give passes conn to Accept, and blocks until it is accepted. If the listener is closed, Give
// closes conn and returns net.ErrClosed.
func (l *Listener) Give(conn net.Conn) error {
	select {
	case l.conns <- conn:
		return nil
	case <-l.closed:
		_ = conn.Close()
		return net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }
