package gateway_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between clients and a listener, on TCP of this machine both ways.
type proxy struct {
	testing.TB
	front net.Listener
	back  string
	pairs sync.WaitGroup
}

// newProxy returns a proxy in front of what takes connections from to, until the
// test ends.
func newProxy(t testing.TB, to *listener) *proxy {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	back := listen()
	p := &proxy{TB: t, front: listen(), back: back.Addr().String()}
	var accepting sync.WaitGroup
	accepting.Go(func() { each(back, func(conn net.Conn) { _ = to.Give(conn) }) })
	accepting.Go(func() { each(p.front, p.pair) })
	t.Cleanup(func() {
		_, _ = p.front.Close(), back.Close()
		accepting.Wait()
		p.pairs.Wait()
	})
	return p
}

// each hands over connections until the listener is closed.
func each(l net.Listener, take func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		take(conn)
	}
}

// pair carries bytes between a client and a connection of its own to the gateway.
// Where either ends, both do.
func (p *proxy) pair(client net.Conn) {
	server, err := net.Dial("tcp", p.back)
	if err != nil {
		p.Error(errors.Join(err, client.Close()))
		return
	}
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	p.pairs.Go(func() { carry(server, client) })
	p.pairs.Go(func() { carry(client, server) })
}

// dial returns a connection of a client.
func (p *proxy) dial() net.Conn {
	conn, err := net.Dial("tcp", p.front.Addr().String())
	if err != nil {
		p.Fatal(err)
	}
	return conn
}
