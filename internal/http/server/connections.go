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

// The reserve is how many connections are taken beyond the bounds. They are for health,
// metrics and operators: other requests get 503.
// Those that were sent a request that is not read yet may be twice as many. The system
// queues up to 4,096 connections that come at once, in their order. The reserve and
// freshFor say how fast the queue moves, and so how long a health check waits in it.
const (
	reserveLeast = 64
	reserveMost  = 512
)

// connections bounds those of a server.
//
// A connection is idle until the header of a request has come, and again between
// requests. Only idle connections are closed to make room, the oldest first: of the
// address that has too many, else of any. Where none is idle, the next connection is
// taken into the reserve, and the oldest idle one of it makes room too. So a client that
// sends its request at once is answered, however many others hold connections open.
type connections struct {
	most, each, reserve int

	mu      sync.Mutex // guards the rest
	open    int        // without those in the reserve
	spare   int        // in the reserve
	of      map[netip.Addr]*address
	waiting list.List // of *conn that are idle and not in the reserve, the oldest first
	spares  list.List // of *conn that are idle and in the reserve
	evicted uint64
	refused uint64
}

// address is an address with connections.
type address struct {
	open    int
	waiting list.List // of *conn that are idle
}

func newConnections(most, each int) *connections {
	reserve := max(min(most/2, filesMax()/16, reserveMost), reserveLeast)
	return &connections{most: most, each: each, reserve: reserve, of: map[netip.Addr]*address{}}
}

// conn is a connection. Its fields are guarded by the mutex of connections.
type conn struct {
	net.Conn
	all      *connections
	key      netip.Addr // the zero Addr has no bound of its own
	reserved bool       // beyond the bounds
	closed   bool
	since    time.Time     // when it became idle
	among    *list.Element // of waiting or spares; nil while it is active
	own      *list.Element // of the address
}

// listen bounds the connections of a listener.
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
		for wait > 0 { // the system queues those behind it
			time.Sleep(wait)
			one, victim, wait = l.all.enter(accepted)
		}
		if victim != nil {
			_ = victim.Close() // nothing of a request came on it
		}
		if one != nil {
			return one, nil
		}
		turnAway(accepted)
	}
}

// refused is a connection that a listener has refused: requests on it but health checks
// get the reply.
type refused interface {
	Refused() (status int, message, hint string, after time.Duration)
}

// whyNot returns the reply to requests on a connection that is beyond the bounds.
func whyNot(c net.Conn) *Refusal {
	if r, ok := c.(refused); ok {
		status, message, hint, after := r.Refused()
		return &Refusal{Status: status, Code: "too_many", Message: message, Hint: hint, After: after}
	}
	return &Refusal{Status: http.StatusServiceUnavailable, Code: "too_many", Message: "the server, or this address, has as many connections as it may", Hint: "close some, or send the request again later", After: time.Second}
}

// turnAway answers a connection that is not read.
func turnAway(c net.Conn) {
	why := whyNot(c)
	body, _ := json.Marshal(map[string]string{"error": why.Message, "hint": why.Hint}) // texts can be encoded
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))                                // it fits an empty buffer
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %.0f\r\n\r\n%s",
		why.Status, http.StatusText(why.Status), len(body), math.Ceil(why.After.Seconds()), body)
	_ = c.Close()
}

// AddressOf returns the address that a connection counts for: of IPv6 the first 64
// bits, since one machine has all that share them.
func AddressOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	of := tcp.AddrPort().Addr().Unmap().WithZone("")
	if of.Is6() {
		prefix, _ := of.Prefix(64) // 64 bits are always there
		of = prefix.Addr()
	}
	return of
}

// enter takes a connection; nil is that there is no room. victim has to be closed for
// it. wait is that all that could be closed are fresh.
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

// oldest returns the first of some connections without bytes that wait to be read: the
// server, not its client, is late with the others. wait is how long the first one stays
// fresh: its client has had little time to send a request.
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
	oldestTries = 32 // each is a call of the system
)

// rest says that a connection has no request under way.
func (c *connections) rest(one *conn) {
	switch {
	case one.closed || one.among != nil:
	case one.reserved:
		one.since, one.among = time.Now(), c.spares.PushBack(one)
	default:
		one.since, one.among, one.own = time.Now(), c.waiting.PushBack(one), c.of[one.key].waiting.PushBack(one)
	}
}

// work says that it has one.
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

// leave forgets a connection that is being closed.
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

// state is http.Server.ConnState.
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

// yield lets the connection of a request that is refused make room for others: its
// client may leave the reply unread.
func (c *connections) yield(ctx context.Context) {
	if one, _ := ctx.Value(connectionKey{}).(*conn); one != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rest(one); one.among == nil {
			return
		}
		one.since = time.Time{} // the first to go
		if one.reserved {
			c.spares.MoveToFront(one.among)
			return
		}
		c.waiting.MoveToFront(one.among)
		c.of[one.key].waiting.MoveToFront(one.own)
	}
}

// inReserve returns the reply to a request on a connection that is beyond the bounds;
// nil if it is not.
func inReserve(ctx context.Context) *Refusal {
	one, _ := ctx.Value(connectionKey{}).(*conn)
	if one == nil || !one.reserved { // which does not change once the connection is taken
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

// CloseWrite says that nothing more comes from here, as that of TCP does.
func (one *conn) CloseWrite() error {
	if half, ok := one.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
