package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The reserve is the number of connections beyond the limits. They serve health checks, metrics and
// operators; other requests get status 503. Connections with a request in the socket that is not
// read yet may be twice as many.
//
// The operating system queues up to 4,096 new connections in order. The reserve and freshFor
// determine how fast this queue moves, and so how long a health check waits in it.
const (
	reserveLeast = 64
	reserveMost  = 512
)

// connections limits the connections of a server.
//
// A connection is idle until the header of a request has arrived, and again between requests. Only
// idle connections are closed to make room, oldest first: those of an address with too many
// connections, otherwise those of any address. If none is idle, the next connection goes into the
// reserve, and the oldest idle one there makes room. So a client that sends its request at once is
// answered, however many connections other clients hold open.
type connections struct {
	most, each, reserve int

	mu      sync.Mutex // guards the fields below
	open    int        // without those in the reserve
	spare   int        // in the reserve
	of      map[netip.Addr]*address
	waiting list.List // idle *conn that are not in the reserve, oldest first
	spares  list.List // idle *conn in the reserve
	evicted uint64
	refused uint64
}

// address is an address with connections.
type address struct {
	open    int
	waiting list.List // of idle *conn
}

func newConnections(most, each int) *connections {
	reserve := max(min(most/2, filesMax()/16, reserveMost), reserveLeast)
	return &connections{most: most, each: each, reserve: reserve, of: map[netip.Addr]*address{}}
}

// conn is a connection. Its fields are guarded by the mutex of connections.
type conn struct {
	net.Conn
	all      *connections
	key      netip.Addr // the zero Addr has no limit of its own
	reserved bool       // beyond the limits
	closed   bool
	since    time.Time     // when it became idle
	among    *list.Element // element of waiting or spares; nil while active
	own      *list.Element // element of the address's list
}

// listen limits the connections of a listener.
func (c *connections) listen(l net.Listener) net.Listener { return &listener{l, c} }

type listener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		one, victim, wait := l.all.enter(accepted)
		for wait > 0 { // the operating system queues the next ones
			time.Sleep(wait)
			one, victim, wait = l.all.enter(accepted)
		}
		if victim != nil {
			_ = victim.Close() // no byte of a request has arrived on it
		}
		if one != nil {
			return one, nil
		}
		turnAway(accepted)
	}
}

// refused is a connection that a listener has refused. Requests on it, except health checks, get
// the reply.
type refused interface {
	Refused() (status int, message, hint string, after time.Duration)
}

// whyNot returns the reply to requests on a connection beyond the limits.
func whyNot(c net.Conn) *Refusal {
	if r, ok := c.(refused); ok {
		status, message, hint, after := r.Refused()
		return &Refusal{Status: status, Code: "too_many", Message: message, Hint: hint, After: after}
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Code: "too_many", Message: "the server, or this address, has the maximum number of connections", Hint: "close some, or send the request again later", After: time.Second}
}

// turnAway replies to a connection without reading it.
func turnAway(c net.Conn) {
	why := whyNot(c)
	body, _ := json.Marshal(map[string]string{"error": why.Message, "hint": why.Hint}) // strings can always be encoded
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))                                // the reply fits into an empty send buffer
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %.0f\r\n\r\n%s",
		why.Status, http.StatusText(why.Status), len(body), math.Ceil(why.After.Seconds()), body)
	_ = c.Close()
}

// AddressOf returns the address that a connection counts for. For IPv6 it is the first 64 bits,
// because one machine can use all addresses that share them.
func AddressOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	of := tcp.AddrPort().Addr().Unmap().WithZone("")
	if of.Is6() {
		prefix, _ := of.Prefix(64) // an IPv6 address always has 64 bits
		of = prefix.Addr()
	}
	return of
}

// enter adds a connection; one is nil if there is no room. The caller must close victim to make
// room. A positive wait means that all connections that could be closed are fresh.
func (c *connections) enter(accepted net.Conn) (one, victim *conn, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one = &conn{Conn: accepted, all: c, key: AddressOf(accepted.RemoteAddr())}
	a := c.of[one.key]
	_, already := accepted.(refused)
	switch {
	case already:
		one.reserved = true
	case one.key.IsValid() && a != nil && a.open >= c.each:
		victim, wait = oldest(&a.waiting)
		one.reserved = victim == nil
	case c.open >= c.most:
		victim, wait = oldest(&c.waiting)
		one.reserved = victim == nil
	}
	if one.reserved && c.spare >= c.reserve && wait == 0 {
		if victim, wait = oldest(&c.spares); victim == nil && wait == 0 && c.spare >= 2*c.reserve {
			c.refused++
			return nil, nil, 0
		}
	}
	if wait > 0 {
		return nil, nil, wait
	}
	if victim != nil {
		c.evicted++
		c.leave(victim)
	}
	if one.reserved {
		c.spare++
	} else {
		c.open++
		if c.of[one.key] == nil {
			c.of[one.key] = &address{}
		}
		c.of[one.key].open++
	}
	c.rest(one)
	return one, victim, 0
}

// oldest returns the first connection in l without unread bytes. If there are unread bytes, the
// server is late, not the client. wait is how long the first connection stays fresh: its client has
// had little time to send a request.
func oldest(l *list.List) (victim *conn, wait time.Duration) {
	tries := 0
	for e := l.Front(); e != nil && tries < oldestTries; e = e.Next() {
		one := e.Value.(*conn)
		if wait = freshFor - time.Since(one.since); wait > 0 {
			return nil, wait
		}
		if !pending(one.Conn) {
			return one, 0
		}
		tries++
	}
	return nil, 0
}

const (
	freshFor    = 50 * time.Millisecond
	oldestTries = 32 // each try is a system call
)

// rest marks a connection as idle.
func (c *connections) rest(one *conn) {
	switch {
	case one.closed || one.among != nil:
	case one.reserved:
		one.since, one.among = time.Now(), c.spares.PushBack(one)
	default:
		one.since, one.among, one.own = time.Now(), c.waiting.PushBack(one), c.of[one.key].waiting.PushBack(one)
	}
}

// work marks a connection as active.
func (c *connections) work(one *conn) {
	switch {
	case one.among == nil:
	case one.reserved:
		c.spares.Remove(one.among)
	default:
		c.waiting.Remove(one.among)
		c.of[one.key].waiting.Remove(one.own)
	}
	one.among, one.own = nil, nil
}

// leave removes a connection that is being closed.
func (c *connections) leave(one *conn) {
	if one.closed {
		return
	}
	c.work(one)
	one.closed = true
	if one.reserved {
		c.spare--
		return
	}
	c.open--
	a := c.of[one.key]
	if a.open--; a.open == 0 {
		delete(c.of, one.key)
	}
}

// state implements http.Server.ConnState.
func (c *connections) state(of net.Conn, state http.ConnState) {
	one := connOf(of)
	if one == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive, http.StateHijacked:
		c.work(one)
	case http.StateIdle:
		c.rest(one)
	}
}

func connOf(of net.Conn) *conn {
	if secure, ok := of.(*tls.Conn); ok {
		of = secure.NetConn()
	}
	one, _ := of.(*conn)
	return one
}

type connectionKey struct{}

func withConnection(ctx context.Context, of net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connOf(of))
}

// yield lets the connection of a refused request make room for others: its client may never read
// the reply.
func (c *connections) yield(ctx context.Context) {
	if one, _ := ctx.Value(connectionKey{}).(*conn); one != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rest(one); one.among == nil {
			return
		}
		one.since = time.Time{} // the first to be closed
		if one.reserved {
			c.spares.MoveToFront(one.among)
			return
		}
		c.waiting.MoveToFront(one.among)
		c.of[one.key].waiting.MoveToFront(one.own)
	}
}

// inReserve returns the reply to a request on a connection beyond the limits; nil if it is within
// them.
func inReserve(ctx context.Context) *Refusal {
	one, _ := ctx.Value(connectionKey{}).(*conn)
	if one == nil || !one.reserved { // reserved does not change after enter
		return nil
	}
	return whyNot(one.Conn)
}

// Close implements net.Conn.
func (one *conn) Close() error {
	one.all.mu.Lock()
	one.all.leave(one)
	one.all.mu.Unlock()
	return one.Conn.Close()
}

// CloseWrite closes the write side, like that of net.TCPConn.
func (one *conn) CloseWrite() error {
	if half, ok := one.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
