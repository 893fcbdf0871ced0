package gateway

import (
	"cmp"
	"slices"
	"time"
)

// member is an open connection: the gateway's clock looks at it each second, and
// it is sent away when the gateway ends.
type member interface {
	tick(now time.Time)
	leave(code closeCode, after time.Duration)
	state() Client
}

// enter takes a connection in, where there is room for it. Run waits for its exit.
// Strangers have little room: who only knocks keeps no client out that shows its
// token with its request.
func (g *Gateway) enter(m member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.draining:
		return errDraining
	case len(g.open) >= g.options.Connections, stranger(m) && g.strange >= max(1, g.options.Connections/8):
		g.metrics.Full.Add(1)
		return errFull
	}
	if stranger(m) {
		g.strange++
	}
	g.open[m] = struct{}{}
	g.metrics.Connections.Add(1)
	g.work.Add(1)
	return nil
}

// stranger reports whether it is not known who a connection is of. Its caller holds
// mu.
func stranger(m member) bool {
	s, ok := m.(*session)
	return ok && s.strange
}

// know says that it is known who a connection is of.
func (g *Gateway) know(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.strange {
		s.strange = false
		g.strange--
	}
}

func (g *Gateway) exit(m member) {
	defer g.work.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if stranger(m) {
		g.strange--
	}
	delete(g.open, m)
	g.metrics.Connections.Add(-1)
}

// hold keeps Run from returning until g.work is done with what a request asks.
func (g *Gateway) hold() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return errDraining
	}
	g.work.Add(1)
	return nil
}

func (g *Gateway) leaving() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}

// name makes s the connection of a client's session, and returns the older one, if
// there are two: that is s where its client gave it up, and was served faster by the
// next one.
func (g *Gateway) name(key string, s *session) (older *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.named[key]
	if before != nil && before.opened.After(s.opened) {
		return s
	}
	g.named[key] = s
	return before
}

func (g *Gateway) unname(key string, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.named[key] == s {
		delete(g.named, key)
	}
}

func (g *Gateway) members() []member {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := make([]member, 0, len(g.open))
	for m := range g.open {
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
