package admin

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

// Values of the label tenant that are no tenants: their names have no brackets.
const (
	tenantsOther = "(other)" // all but the first tenantsShown
	tenantNone   = "(none)"  // connections that have not said who they are
)

// tenantsShown of a gateway have figures of their own, those whose events wait in
// the greatest number.
const tenantsShown = 50

var gatewayTable = metric.NewTable("gateway_", nil,
	metric.Gauge("connections", metric.None, "Open connections.", func(m *gateway.Metrics) int64 { return m.Connections.Load() }),
	metric.Gauge("events_in_flight", metric.None, "Events of connections that wait for their result.", func(m *gateway.Metrics) int64 { return m.Pending.Load() }),
	metric.Counter("connections_opened", metric.None, "Connections that were accepted.", func(m *gateway.Metrics) uint64 { return m.Opened.Load() }),
	metric.Counter("connections_refused", metric.None, "Connections that were refused because the gateway had as many as it may.", func(m *gateway.Metrics) uint64 { return m.Full.Load() }),
	metric.Counter("requests_forbidden", metric.None, "Requests that were refused for their token or origin.", func(m *gateway.Metrics) uint64 { return m.Forbidden.Load() }),
	metric.Counter("events_accepted", metric.None, "Events that are durable.", func(m *gateway.Metrics) uint64 { return m.Accepted.Load() }),
	metric.Counter("events_refused", metric.None, "Events that were refused and that the client may send later.", func(m *gateway.Metrics) uint64 { return m.Refused.Load() }),
	metric.Counter("events_overloaded", metric.None, "Events that were refused because too many were being appended. They count as refused too.", func(m *gateway.Metrics) uint64 { return m.Overloaded.Load() }),
	metric.Counter("errors", metric.None, "Messages and events that were answered with an error.", func(m *gateway.Metrics) uint64 { return m.Bad.Load() }),
	metric.Counter("append_failures", metric.None, "Appends that failed.", func(m *gateway.Metrics) uint64 { return m.Failures.Load() }),
	metric.Counter("results", metric.None, "Results that were sent.", func(m *gateway.Metrics) uint64 { return m.Results.Load() }),
	metric.Counter("resumes", metric.None, "Connections that resumed after a cursor.", func(m *gateway.Metrics) uint64 { return m.Resumes.Load() }),
	metric.Counter("gaps", metric.None, "Gaps in the results that clients were notified of.", func(m *gateway.Metrics) uint64 { return m.Gaps.Load() }),
	metric.Counter("unreadable_results", metric.None, "Records of the topic of results that are not results.", func(m *gateway.Metrics) uint64 { return m.Unreadable.Load() }),
	metric.Histogram("append", "Time of appends, counted once for each of their events.", func(m *gateway.Metrics) metric.Times { return bucketsOf(&m.Append) }),
)

var gatewayCloseTable = metric.NewTable("gateway_", []string{"code"},
	metric.Counter("connections_closed", metric.None, "Connections that the gateway closed, by close code.", func(n uint64) uint64 { return n }),
)

var hubTable = metric.NewTable("gateway_hub_", nil,
	metric.Gauge("subscribers", metric.None, "Connections that receive results.", func(m *hub.Metrics) int64 { return m.Subscribers.Load() }),
	metric.Gauge("replaying_subscribers", metric.None, "Subscribers that read the log, or wait to read it, because they are behind.", func(m *hub.Metrics) int64 { return m.Replaying.Load() }),
	metric.Counter("records_read", metric.None, "New records of results that were read for all subscribers together.", func(m *hub.Metrics) uint64 { return m.Passed.Load() }),
	metric.Counter("records_queued", metric.None, "Records that were put into the queues of subscribers.", func(m *hub.Metrics) uint64 { return m.Queued.Load() }),
	metric.Counter("queue_overflows", metric.None, "Queues that were full, so that their subscriber began to read the log.", func(m *hub.Metrics) uint64 { return m.Slow.Load() }),
	metric.Counter("replay_pages", metric.None, "Pages of the log that were read for subscribers that were behind.", func(m *hub.Metrics) uint64 { return m.Pages.Load() }),
	metric.Counter("replay_records", metric.None, "Records of the log that were read for subscribers that were behind, those of other keys included.", func(m *hub.Metrics) uint64 { return m.Scanned.Load() }),
	metric.Counter("read_failures", metric.None, "Reads that failed or took too long. The gateway retries them.", func(m *hub.Metrics) uint64 { return m.Failures.Load() }),
)

var tenantTable = metric.NewTable("gateway_tenant_", []string{"tenant"},
	metric.Gauge("connections", metric.None, "Open connections of the tenant.", func(t *tenant) int { return t.connections }),
	metric.Gauge("events_in_flight", metric.None, "Events of the tenant's connections that wait for their result.", func(t *tenant) int { return t.pending }),
	metric.Gauge("client_events_in_flight_max", metric.None, "Events in flight of the connection that has the most.", func(t *tenant) int { return t.pendingMax }),
	metric.Gauge("queue_age", metric.Seconds, "Age of the oldest event in flight.", func(t *tenant) time.Duration { return t.age }),
	metric.Gauge("lag_records", metric.None, "Records of results, of any client, that the connection furthest behind has yet to pass.", func(t *tenant) int64 { return t.behind }),
)

// GatewayCollector shows what a gateway and its reader of results count.
func GatewayCollector(g *gateway.Gateway) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		m := g.Metrics()
		gatewayTable.Show(out, m)
		hubTable.Show(out, g.Hub())
		for _, t := range tenantsOf(g.Clients(), time.Now()) {
			tenantTable.Show(out, t, t.name)
		}
		for code, n := range m.Closed.All() {
			gatewayCloseTable.Show(out, n, strconv.Itoa(code))
		}
	}, gatewayTable, gatewayCloseTable, hubTable, tenantTable)
}

// tenant is what connections of one have together.
type tenant struct {
	name                 string
	connections, pending int
	pendingMax           int // of a connection
	age                  time.Duration
	behind               int64
}

func (t *tenant) add(other *tenant) {
	t.connections += other.connections
	t.pending += other.pending
	t.pendingMax = max(t.pendingMax, other.pendingMax)
	t.age, t.behind = max(t.age, other.age), max(t.behind, other.behind)
}

// tenantsOf adds clients up, tenantsShown at most and one for the others.
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
