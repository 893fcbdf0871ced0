package limit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// Listen limits the connections that each address makes to l. It answers a connection over the
// limit with an HTTP error, without TLS, and closes it. It reads nothing from such a connection.
func Listen(l net.Listener, addresses *Limiter[netip.Prefix]) net.Listener {
	return &listener{Listener: l, addresses: addresses}
}

// Reserve limits connections like Listen, but returns a connection over the limit as a *Refused. A
// server can then answer health checks on it, and refuse other requests with the reason.
func Reserve(l net.Listener, addresses *Limiter[netip.Prefix]) net.Listener {
	return &listener{Listener: l, addresses: addresses, reserve: true}
}

// Refused is a connection from an address that is over its limit. It does not count as an open
// connection.
type Refused struct {
	net.Conn
	refusal Refusal
}

// Refused returns the reply to requests on the connection.
func (r *Refused) Refused() (status int, message, hint string, after time.Duration) {
	status = http.StatusTooManyRequests
	if r.refusal.Reason == Full {
		status = http.StatusServiceUnavailable
	}
	return status, said[r.refusal.Reason], "try again after Retry-After", r.refusal.Wait
}

// NetConn returns the underlying connection.
func (r *Refused) NetConn() net.Conn { return r.Conn }

type listener struct {
	net.Listener
	addresses *Limiter[netip.Prefix]
	reserve   bool
}

// Accept returns the next admitted connection, or with Reserve the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := keyOf(conn.RemoteAddr())
		refusal := l.addresses.Enter(key)
		if refusal.Reason == "" {
			return &counted{Conn: conn, listener: l, key: key}, nil
		}
		if l.reserve {
			return &Refused{conn, refusal}, nil
		}
		refusal.close(conn)
	}
}

// keyOf returns the key of a connection's remote address. Connections without an IP address, such
// as Unix sockets, share one key.
func keyOf(addr net.Addr) netip.Prefix {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return Address(tcp.AddrPort().Addr())
	}
	return netip.Prefix{}
}

// said is the message for each Reason.
var said = map[Reason]string{
	Connections: "this address has the maximum number of connections",
	Rate:        "this address opens connections too fast",
	Full:        "too many other addresses open connections",
}

// close sends the refusal and closes the connection. The write cannot block for long: the answer
// fits into an empty send buffer.
func (r Refusal) close(conn net.Conn) {
	status := "429 Too Many Requests"
	if r.Reason == Full {
		status = "503 Service Unavailable"
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	body := fmt.Sprintf(`{"error":%q,"hint":"try again after Retry-After"}`+"\n", said[r.Reason])
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %d\r\nX-Correlation-Id: %s\r\n\r\n%s",
		status, len(body), (r.Wait+time.Second-1)/time.Second, rand.Text(), body)
	_ = conn.Close()
}

// counted is a connection that calls Leave when it is closed.
type counted struct {
	net.Conn
	listener *listener
	key      netip.Prefix
	left     atomic.Bool
}

// CloseWrite closes the write side, like that of net.TCPConn.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the underlying connection.
func (c *counted) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *counted) Close() error {
	if !c.left.Swap(true) {
		c.listener.addresses.Leave(c.key)
	}
	return c.Conn.Close()
}
