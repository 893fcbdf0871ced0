package admin

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
)

// Values of the label tenant that are not tenants. They contain brackets, which tenant names
// cannot.
const (
	tenantsOther = "(other)" // all tenants after the first tenantsShown
	tenantNone   = "(none)"  // unauthenticated connections
)

// tenantsShown is the number of tenants with metrics of their own: those with the most waiting
// events.
const tenantsShown = 50

// gatewayOf yields the gateway of a process if it serves clients.
func gatewayOf(s *Snapshot, show func(*gateway.Gateway)) {
	if s.gateway != nil && s.gateway.Server != nil {
		show(s.gateway.Server)
	}
}

func eachGateway(s *Snapshot, show func(m *gateway.Metrics, labels ...string)) {
	gatewayOf(s, func(g *gateway.Gateway) { show(g.Metrics()) })
}

func eachClose(s *Snapshot, show func(closed uint64, labels ...string)) {
	gatewayOf(s, func(g *gateway.Gateway) {
		for code, n := range g.Metrics().Closed.All() {
			show(n, strconv.Itoa(code))
		}
	})
}

func eachHub(s *Snapshot, show func(m *hub.Metrics, labels ...string)) {
	gatewayOf(s, func(g *gateway.Gateway) { show(g.Hub()) })
}

func eachTenant(s *Snapshot, show func(t *tenant, labels ...string)) {
	gatewayOf(s, func(g *gateway.Gateway) {
		for _, t := range tenantsOf(g.Clients(), time.Now()) {
			show(t, t.name)
		}
	})
}

func eachEnded(s *Snapshot, show func(g *Gateway, labels ...string)) {
	if s.gateway != nil {
		show(s.gateway)
	}
}

func eachSequence(s *Snapshot, show func(m *sequence.Metrics, labels ...string)) {
	if s.gateway != nil {
		show(s.gateway.Sequence)
	}
}

func eachSequenceEnd(s *Snapshot, show func(ended uint64, labels ...string)) {
	if s.gateway == nil {
		return
	}
	for status, n := range s.gateway.Sequence.Ends.All() {
		show(n, string(status))
	}
}

func eachScope(s *Snapshot, show func(l limit.Stats, labels ...string)) {
	if s.gateway == nil {
		return
	}
	show(s.gateway.Addresses(), "address")
	gatewayOf(s, func(g *gateway.Gateway) { show(g.Tenants(), "tenant") })
}

func eachToken(s *Snapshot, show func(t auth.Stats, labels ...string)) {
	if s.gateway != nil {
		show(s.gateway.Tokens())
	}
}

func eachRefusal(s *Snapshot, show func(refused int64, labels ...string)) {
	eachToken(s, func(t auth.Stats, _ ...string) {
		for reason, n := range t.Refused {
			show(n, string(reason))
		}
	})
}

// tenant sums up the connections of one tenant.
type tenant struct {
	name                 string
	connections, pending int
	pendingMax           int // largest value of one connection
	age                  time.Duration
	behind               int64
}

func (t *tenant) add(other *tenant) {
	t.connections += other.connections
	t.pending += other.pending
	t.pendingMax = max(t.pendingMax, other.pendingMax)
	t.age, t.behind = max(t.age, other.age), max(t.behind, other.behind)
}

// tenantsOf sums up clients by tenant. It returns at most tenantsShown tenants, and one entry for
// the others.
func tenantsOf(clients []gateway.Client, now time.Time) []*tenant {
	by := map[string]*tenant{}
	var list []*tenant
	for i := range clients {
		c := &clients[i]
		one := tenant{name: cmp.Or(c.Tenant, tenantNone), connections: 1, pending: c.Pending, pendingMax: c.Pending, behind: c.Behind}
		if !c.Oldest.IsZero() {
			one.age = now.Sub(c.Oldest)
		}
		if t := by[one.name]; t != nil {
			t.add(&one)
			continue
		}
		by[one.name] = &one
		list = append(list, &one)
	}
	slices.SortFunc(list, func(a, b *tenant) int {
		return cmp.Or(-cmp.Compare(a.pending, b.pending), -cmp.Compare(a.connections, b.connections), cmp.Compare(a.name, b.name))
	})
	if len(list) <= tenantsShown {
		return list
	}
	rest := &tenant{name: tenantsOther}
	for _, t := range list[tenantsShown:] {
		rest.add(t)
	}
	return append(list[:tenantsShown], rest)
}
