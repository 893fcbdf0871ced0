package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

// Gateway is that of the process, as far as a server shows it.
type Gateway struct {
	Name      string
	Topics    []string         // that its file names
	Server    *gateway.Gateway // nil if it ended before it served clients
	Sequence  *sequence.Metrics
	Addresses func() limit.Stats
	Tokens    func() auth.Stats
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

var gatewayEndedTable = metric.NewTable("gateway_", nil,
	metric.Flag("ended", "1 after the gateway ended because one of its topics got more partitions.", func(g *Gateway) bool { return g.ended() != nil }),
)

var sequenceTable = metric.NewTable("gateway_sequence_", nil,
	metric.Counter("events_accepted", metric.None, "Events that were sent to the pipeline.", func(m *sequence.Metrics) uint64 { return m.Accepted.Load() }),
	metric.Counter("events_held", metric.None, "Events that had to wait for an earlier event of their client.", func(m *sequence.Metrics) uint64 { return m.Held.Load() }),
	metric.Counter("events_rejected", metric.None, "Events that were rejected for their sequence, time or size.", func(m *sequence.Metrics) uint64 { return m.Rejected.Load() }),
	metric.Counter("duplicate_events", metric.None, "Events that were sent again.", func(m *sequence.Metrics) uint64 { return m.Duplicates.Load() }),
	metric.Counter("conflicting_events", metric.None, "Events that were sent again with another payload.", func(m *sequence.Metrics) uint64 { return m.Conflicts.Load() }),
	metric.Counter("events_expired", metric.None, "Events without an outcome within the window.", func(m *sequence.Metrics) uint64 { return m.Expired.Load() }),
	metric.Counter("results", metric.None, "Results that were written.", func(m *sequence.Metrics) uint64 { return m.Results.Load() }),
	metric.Counter("results_redriven", metric.None, "Results of dead letters that were redriven.", func(m *sequence.Metrics) uint64 { return m.Redriven.Load() }),
	metric.Counter("outcomes_dropped", metric.None, "Outcomes of events that had ended.", func(m *sequence.Metrics) uint64 { return m.Dropped.Load() }),
	metric.Counter("outcomes_unknown", metric.None, "Outcomes of events that the gateway does not know, or no longer knows.", func(m *sequence.Metrics) uint64 { return m.Unknown.Load() }),
	metric.Counter("foreign_records", metric.None, "Records of the pipeline that belong to no client.", func(m *sequence.Metrics) uint64 { return m.Foreign.Load() }),
	metric.Counter("dead_letters", metric.None, "Records of the inbox that became dead letters.", func(m *sequence.Metrics) uint64 { return m.Bad.Load() }),
	metric.Counter("members_rejoined", metric.None, "Members that were fenced and joined their group again.", func(m *sequence.Metrics) uint64 { return m.Rejoined.Load() }),
)

var sequenceEndTable = metric.NewTable("gateway_sequence_", []string{"status"},
	metric.Counter("events_ended", metric.None, "Events that have their result, by its status.", func(n uint64) uint64 { return n }),
)

var limitTable = metric.NewTable("gateway_limit_", []string{"scope"},
	metric.Gauge("keys", metric.None, "Addresses or tenants that the gateway counts, by scope: address, tenant.", func(s limit.Stats) int { return s.Keys }),
	metric.Counter("connections_refused", metric.None, "Connections that were refused because their address or tenant has as many as it may.", func(s limit.Stats) int64 { return s.Connections }),
	metric.Counter("rate_refused", metric.None, "Connections and events that were refused because their address or tenant exceeds its rate.", func(s limit.Stats) int64 { return s.Rate }),
	metric.Counter("keys_refused", metric.None, "Connections and events that were refused because the gateway already counts as many addresses or tenants as it may.", func(s limit.Stats) int64 { return s.Full }),
)

// newBoundsCollector shows what a gateway's sequencer and limits count.
func newBoundsCollector(g *Gateway) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		sequenceTable.Show(out, g.Sequence)
		for status, n := range g.Sequence.Ends.All() {
			sequenceEndTable.Show(out, n, string(status))
		}
		limitTable.Show(out, g.Addresses(), "address")
		if g.Server != nil {
			limitTable.Show(out, g.Server.Tenants(), "tenant")
		}
		gatewayEndedTable.Show(out, g)
	}, sequenceTable, sequenceEndTable, limitTable, gatewayEndedTable)
}
