package serve

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/observe"
)

// Values of the label tenant that are no tenants: their names have no brackets.
const (
	tenantsOther = "(other)" // all but the first tenantsShown
	tenantNone   = "(none)"  // connections that have not said who they are
)

// tenantsShown of a gateway have figures of their own, those whose events wait in
// the greatest number.
const tenantsShown = 50

// GatewayCollector shows what a gateway, and what reads results for it, counts.
func GatewayCollector(g *gateway.Gateway) prometheus.Collector {
	c := &gatewayCollector{
		gateway: g,
		counts:  figures[*gateway.Metrics]{prefix: "gateway_"},
		reads:   figures[*hub.Metrics]{prefix: "gateway_hub_"},
		tenants: figures[*tenant]{prefix: "gateway_tenant_", labels: []string{"tenant"}},
		closed:  prometheus.NewDesc("afterbay_gateway_closed_total", "Connections that the gateway ended, by close code.", []string{"code"}, nil),
		append:  prometheus.NewDesc("afterbay_gateway_append_seconds", "Time of appends, for each of their events.", nil, nil),
	}
	c.addCounts()
	c.addReads()
	const gauge = prometheus.GaugeValue
	c.tenants.add(gauge, "connections", "Connections that are open.", func(t *tenant) float64 { return float64(t.connections) })
	c.tenants.add(gauge, "inflight", "Events of connections that wait for their result.", func(t *tenant) float64 { return float64(t.pending) })
	c.tenants.add(gauge, "client_inflight_max", "Of them, those of the connection that has most.", func(t *tenant) float64 { return float64(t.pendingMax) })
	c.tenants.add(gauge, "queue_age_seconds", "How long the oldest of them has waited.", func(t *tenant) float64 { return t.age.Seconds() })
	c.tenants.add(gauge, "behind_records", "Records of results, of any client, that are not passed yet for the connection that lacks most.", func(t *tenant) float64 { return float64(t.behind) })
	return c
}

type gatewayCollector struct {
	gateway        *gateway.Gateway
	counts         figures[*gateway.Metrics]
	reads          figures[*hub.Metrics]
	tenants        figures[*tenant]
	closed, append *prometheus.Desc
}

func (c *gatewayCollector) addCounts() {
	add := func(name, help string, value func(*gateway.Metrics) uint64) {
		c.counts.add(prometheus.CounterValue, name+"_total", help, func(m *gateway.Metrics) float64 { return float64(value(m)) })
	}
	c.counts.add(prometheus.GaugeValue, "connections", "Connections that are open.", func(m *gateway.Metrics) float64 { return float64(m.Connections.Load()) })
	c.counts.add(prometheus.GaugeValue, "inflight", "Events of connections that wait for their result.", func(m *gateway.Metrics) float64 { return float64(m.Pending.Load()) })
	add("opened", "Connections that were taken in.", func(m *gateway.Metrics) uint64 { return m.Opened.Load() })
	add("full", "Connections refused, since there were too many.", func(m *gateway.Metrics) uint64 { return m.Full.Load() })
	add("forbidden", "Requests refused for their token or origin.", func(m *gateway.Metrics) uint64 { return m.Forbidden.Load() })
	add("accepted", "Events that are durable.", func(m *gateway.Metrics) uint64 { return m.Accepted.Load() })
	add("backpressure", "Events refused, to be sent later.", func(m *gateway.Metrics) uint64 { return m.Refused.Load() })
	add("overloaded", "Events refused, since too many were on their way into the log.", func(m *gateway.Metrics) uint64 { return m.Overloaded.Load() })
	add("bad", "Messages and events answered with an error.", func(m *gateway.Metrics) uint64 { return m.Bad.Load() })
	add("append_failures", "Appends that failed.", func(m *gateway.Metrics) uint64 { return m.Failures.Load() })
	add("results", "Results that were sent.", func(m *gateway.Metrics) uint64 { return m.Results.Load() })
	add("resumes", "Connections that went on after a cursor.", func(m *gateway.Metrics) uint64 { return m.Resumes.Load() })
	add("gaps", "Gaps that clients were told of.", func(m *gateway.Metrics) uint64 { return m.Gaps.Load() })
	add("unreadable", "Records among the results that are none.", func(m *gateway.Metrics) uint64 { return m.Unreadable.Load() })
}

func (c *gatewayCollector) addReads() {
	add := func(name, help string, value func(*hub.Metrics) uint64) {
		c.reads.add(prometheus.CounterValue, name+"_total", help, func(m *hub.Metrics) float64 { return float64(value(m)) })
	}
	c.reads.add(prometheus.GaugeValue, "subscribers", "Connections that are read for.", func(m *hub.Metrics) float64 { return float64(m.Subscribers.Load()) })
	c.reads.add(prometheus.GaugeValue, "replaying", "Of those, that read the log or wait for their turn to.", func(m *hub.Metrics) float64 { return float64(m.Replaying.Load()) })
	add("passed", "Records that were read as they came.", func(m *hub.Metrics) uint64 { return m.Passed.Load() })
	add("queued", "Records that were queued for connections.", func(m *hub.Metrics) uint64 { return m.Queued.Load() })
	add("slow", "Queues that were full, so that their connections read the log.", func(m *hub.Metrics) uint64 { return m.Slow.Load() })
	add("pages", "Pages of the log that were read for connections that were behind.", func(m *hub.Metrics) uint64 { return m.Pages.Load() })
	add("scanned", "Records that were read for these pages.", func(m *hub.Metrics) uint64 { return m.Scanned.Load() })
	add("failures", "Reads that failed, or took too long, and are tried again.", func(m *hub.Metrics) uint64 { return m.Failures.Load() })
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

// Describe implements prometheus.Collector.
func (c *gatewayCollector) Describe(descs chan<- *prometheus.Desc) {
	c.counts.Describe(descs)
	c.reads.Describe(descs)
	c.tenants.Describe(descs)
	descs <- c.closed
	descs <- c.append
}

// Collect implements prometheus.Collector.
func (c *gatewayCollector) Collect(metrics chan<- prometheus.Metric) {
	m := c.gateway.Metrics()
	c.counts.show(metrics, m)
	c.reads.show(metrics, c.gateway.Hub())
	for _, t := range tenantsOf(c.gateway.Clients(), time.Now()) {
		c.tenants.show(metrics, t, t.name)
	}
	for code, n := range m.Closed.All() {
		metrics <- prometheus.MustNewConstMetric(c.closed, prometheus.CounterValue, float64(n), strconv.Itoa(code))
	}
	appends := &observe.Snapshot{}
	appends.Add(&m.Append)
	metrics <- &histogram{c.append, []*dto.LabelPair{}, appends}
}
