package gateway

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// member is an open connection. The gateway calls tick each second, and leave when it drains.
type member interface {
	tick(now time.Time)
	leave(code closeCode, after time.Duration)
	state() Client
}

// connections is the set of open connections of a gateway, of every kind.
type connections struct {
	most  int // maximum number of open connections
	count *Metrics
	work  sync.WaitGroup // connections, requests and their goroutines

	mu       sync.Mutex // guards the fields below
	draining bool
	drained  chan struct{}       // closed when draining starts
	open     map[member]struct{} // connections of every kind
	named    map[string]*session // by client and session id
	strange  int                 // connections in open that are not yet authenticated
}

// enter adds a connection if there is room; Run then waits for its exit. Unauthenticated
// connections get only a small share of the room. So connections that never authenticate cannot
// keep out clients that send a token with their request.
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

// stranger reports whether a connection is unauthenticated. The caller holds mu.
func stranger(m member) bool {
	s, ok := m.(*session)
	return ok && s.strange
}

// know marks a connection as authenticated.
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

// hold adds a request to c.work, so that Run waits for it. The caller must call c.work.Done.
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

// name registers s as the connection of a client's session, and returns the older of two
// connections, if there are two. s itself can be the older one: its client gave it up, and the next
// connection was served first.
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

// Client is a snapshot of an open connection of a client.
type Client struct {
	Tenant, Client string // "" until the connection is authenticated
	Kind           string // websocket, sse or poll
	Opened         time.Time
	Pending        int       // events without a result so far
	Oldest         time.Time // arrival of the oldest of these; zero if Pending is 0
	Unacked        int       // results sent since the client's last acknowledgement
	Behind         int64     // records of its results partition, of any client, that it has not yet passed
}

// Clients returns the open connections, ordered by tenant, client and age, oldest first.
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
