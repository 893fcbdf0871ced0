package gateway

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// member is an open connection: the gateway's clock looks at it each second, and
// it is sent away when the gateway ends.
type member interface {
	tick(now time.Time)
	leave(code closeCode, after time.Duration)
	state() Client
}

// connections are those of a gateway, of every kind.
type connections struct {
	most  int // how many may be open
	count *Metrics
	work  sync.WaitGroup // connections, requests and their goroutines

	mu       sync.Mutex // guards what follows
	draining bool
	drained  chan struct{}       // closed when draining begins
	open     map[member]struct{} // connections of every kind
	named    map[string]*session // by client and session id
	strange  int                 // connections of open that have not said who they are
}

// enter takes a connection in, where there is room for it. Run waits for its exit.
// Strangers have little room: who only knocks keeps no client out that shows its
// token with its request.
func (c *connections) enter(m member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.draining:
		return errDraining
	case len(c.open) >= c.most, stranger(m) && c.strange >= max(1, c.most/8):
		c.count.Full.Add(1)
		return errFull
	}
	if stranger(m) {
		c.strange++
	}
	c.open[m] = struct{}{}
	c.count.Connections.Add(1)
	c.work.Add(1)
	return nil
}

// stranger reports whether it is not known who a connection is of. Its caller holds
// mu.
func stranger(m member) bool {
	s, ok := m.(*session)
	return ok && s.strange
}

// know says that it is known who a connection is of.
func (c *connections) know(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.strange {
		s.strange = false
		c.strange--
	}
}

func (c *connections) exit(m member) {
	defer c.work.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if stranger(m) {
		c.strange--
	}
	delete(c.open, m)
	c.count.Connections.Add(-1)
}

// hold keeps Run from returning until c.work is done with what a request asks.
func (c *connections) hold() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return errDraining
	}
	c.work.Add(1)
	return nil
}

func (c *connections) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// name makes s the connection of a client's session, and returns the older one, if
// there are two: that is s where its client gave it up, and was served faster by the
// next one.
func (c *connections) name(key string, s *session) (older *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.named[key]
	if before != nil && before.opened.After(s.opened) {
		return s
	}
	c.named[key] = s
	return before
}

func (c *connections) unname(key string, s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named[key] == s {
		delete(c.named, key)
	}
}

func (c *connections) members() []member {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := make([]member, 0, len(c.open))
	for m := range c.open {
		members = append(members, m)
	}
	return members
}

// Client is an open connection of a client, at a moment.
type Client struct {
	Tenant, Client string // "" until it has said who it is
	Kind           string // websocket, sse or poll
	Opened         time.Time
	Pending        int       // events that wait for their result
	Oldest         time.Time // since when the first of these does; zero is none
	Unacked        int       // results that were sent to it since it last acknowledged some
	Behind         int64     // records of its partition of results, of any client, that are not yet passed for it
}

// Clients returns the connections that are open, by tenant and client, the oldest
// first.
func (g *Gateway) Clients() []Client {
	members := g.members()
	clients := make([]Client, len(members))
	for i, m := range members {
		clients[i] = m.state()
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Client, b.Client), a.Opened.Compare(b.Opened))
	})
	return clients
}

func (s *session) state() Client {
	s.mu.Lock()
	c := Client{Kind: "websocket", Opened: s.opened, Pending: len(s.pending), Unacked: s.unacked}
	if s.connected {
		c.Tenant, c.Client = s.identity.Tenant, s.identity.Client
	}
	for _, since := range s.pending {
		if c.Oldest.IsZero() || since.Before(c.Oldest) {
			c.Oldest = since
		}
	}
	subscription := s.subscription
	s.mu.Unlock()
	if subscription != nil {
		c.Behind = subscription.Behind()
	}
	return c
}

func (l *listening) state() Client {
	c := Client{Tenant: l.who.Tenant, Client: l.who.Client, Kind: l.kind, Opened: l.opened}
	if s := l.subscription.Load(); s != nil {
		c.Behind = s.Behind()
	}
	return c
}
