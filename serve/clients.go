package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/limit"
	"github.com/afterbay/afterbay/gateway/sequence"
	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/token"
)

// Gateway is that of the process, as far as a server shows it.
type Gateway struct {
	Name      string
	Topics    []string         // that its file names
	Server    *gateway.Gateway // nil if it ended before it served clients
	Sequence  *sequence.Metrics
	Addresses func() limit.Stats
	Tokens    func() token.Stats
	HTTP      *server.Server // that clients connect to; nil is not known
	Ended     func() error   // why it ended while the process goes on, nil while it runs; a nil Ended is never
}

func (g *Gateway) ended() error {
	if g.Ended == nil {
		return nil
	}
	return g.Ended()
}

// Clients is who is connected to a gateway.
type Clients struct {
	Gateway string   `json:"gateway"`
	Clients []Talker `json:"clients"` // by tenant and client, the oldest first
}

// Talker is an open connection of a client.
type Talker struct {
	Tenant  string    `json:"tenant"` // "" until it has said who it is, as Client
	Client  string    `json:"client"`
	Kind    string    `json:"kind"` // websocket, sse or poll
	Opened  time.Time `json:"opened"`
	Pending int       `json:"pending"`         // events that wait for their result
	Oldest  time.Time `json:"oldest,omitzero"` // since when the first of these does
	Unacked int       `json:"unacked"`         // results that were sent to it since it last acknowledged some
	Behind  int64     `json:"behind"`          // records of its partition of results, of any client, that are not yet passed for it
}

// clients answers with the connections of the gateway.
func (s *Server) clients(w http.ResponseWriter, _ *http.Request) {
	g := s.options.Gateway
	if g == nil {
		problem(w, http.StatusNotFound, "ask a process of afterbay gateway, or of afterbay run --gateway", "this process has no gateway")
		return
	}
	reply := Clients{Gateway: g.Name, Clients: []Talker{}}
	if g.Server != nil {
		for _, c := range g.Server.Clients() {
			reply.Clients = append(reply.Clients, Talker(c))
		}
	}
	ingest.WriteJSON(w, http.StatusOK, reply)
}

// Clients returns who is connected to the gateway of the process.
func (c *Client) Clients(ctx context.Context) (clients Clients, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/clients", nil, &clients)
	return clients, err
}

// boundsCollector shows what the bounds of a gateway and its sequencer did.
type boundsCollector struct {
	gateway *Gateway
	counts  figures[*sequence.Metrics]
	limits  figures[limit.Stats]
	ends    *prometheus.Desc
	ended   *prometheus.Desc
}

func newBoundsCollector(g *Gateway) *boundsCollector {
	c := &boundsCollector{
		gateway: g,
		counts:  figures[*sequence.Metrics]{prefix: "gateway_sequence_"},
		limits:  figures[limit.Stats]{prefix: "gateway_limit_", labels: []string{"of"}},
		ends:    prometheus.NewDesc("afterbay_gateway_sequence_ended_total", "Events that have their result, by its status.", []string{"status"}, nil),
		ended:   prometheus.NewDesc("afterbay_gateway_ended", "1 after the gateway ended because a topic of it got more partitions.", nil, nil),
	}
	add := func(name, help string, value func(*sequence.Metrics) uint64) {
		c.counts.add(prometheus.CounterValue, name+"_total", help, func(m *sequence.Metrics) float64 { return float64(value(m)) })
	}
	add("accepted", "Events that went on to the pipeline.", func(m *sequence.Metrics) uint64 { return m.Accepted.Load() })
	add("held", "Events that had to wait for an earlier one.", func(m *sequence.Metrics) uint64 { return m.Held.Load() })
	add("rejected", "Events rejected by sequence, time or size.", func(m *sequence.Metrics) uint64 { return m.Rejected.Load() })
	add("duplicates", "Events that came again.", func(m *sequence.Metrics) uint64 { return m.Duplicates.Load() })
	add("conflicts", "Events that came again with another payload.", func(m *sequence.Metrics) uint64 { return m.Conflicts.Load() })
	add("results", "Results that were written.", func(m *sequence.Metrics) uint64 { return m.Results.Load() })
	add("expired", "Events that had no outcome within the window.", func(m *sequence.Metrics) uint64 { return m.Expired.Load() })
	add("redriven", "Results of dead letters that were sent back.", func(m *sequence.Metrics) uint64 { return m.Redriven.Load() })
	add("dropped", "Outcomes of events that had ended.", func(m *sequence.Metrics) uint64 { return m.Dropped.Load() })
	add("unknown", "Outcomes of events that are not known, or not any more.", func(m *sequence.Metrics) uint64 { return m.Unknown.Load() })
	add("foreign", "Records of the pipeline that are of no client.", func(m *sequence.Metrics) uint64 { return m.Foreign.Load() })
	add("bad", "Records of the inbox that became dead letters.", func(m *sequence.Metrics) uint64 { return m.Bad.Load() })
	add("sessions_rejoined", "Sessions that were fenced and joined again.", func(m *sequence.Metrics) uint64 { return m.Rejoined.Load() })
	bound := func(kind prometheus.ValueType, name, help string, value func(limit.Stats) int64) {
		c.limits.add(kind, name, help, func(s limit.Stats) float64 { return float64(value(s)) })
	}
	bound(prometheus.GaugeValue, "keys", "Addresses and tenants that are remembered.", func(s limit.Stats) int64 { return int64(s.Keys) })
	bound(prometheus.CounterValue, "connections_refused_total", "Connections refused, since their address or tenant has as many as it may.", func(s limit.Stats) int64 { return s.Connections })
	bound(prometheus.CounterValue, "rate_refused_total", "Connections and events refused, since they come too fast.", func(s limit.Stats) int64 { return s.Rate })
	bound(prometheus.CounterValue, "full_refused_total", "Connections and events refused, since too many other addresses or tenants are at it.", func(s limit.Stats) int64 { return s.Full })
	return c
}

// Describe implements prometheus.Collector.
func (c *boundsCollector) Describe(descs chan<- *prometheus.Desc) {
	c.counts.Describe(descs)
	c.limits.Describe(descs)
	descs <- c.ends
	descs <- c.ended
}

// Collect implements prometheus.Collector.
func (c *boundsCollector) Collect(metrics chan<- prometheus.Metric) {
	c.counts.show(metrics, c.gateway.Sequence)
	for status, n := range c.gateway.Sequence.Ends.All() {
		metrics <- prometheus.MustNewConstMetric(c.ends, prometheus.CounterValue, float64(n), string(status))
	}
	c.limits.show(metrics, c.gateway.Addresses(), "address")
	if c.gateway.Server != nil {
		c.limits.show(metrics, c.gateway.Server.Tenants(), "tenant")
	}
	metrics <- prometheus.MustNewConstMetric(c.ended, prometheus.GaugeValue, yes(c.gateway.ended() != nil))
}
