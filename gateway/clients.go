package gateway

import (
	"cmp"
	"slices"
	"time"
)

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
