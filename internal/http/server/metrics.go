package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/observe/metric"
)

// reason is why a request was refused. It is a label of metrics.
type reason uint8

const (
	tooMany    reason = iota // too many requests of its class
	tooLarge                 // it needs more memory than its size allows
	overMemory               // other requests use all memory
	reasons
)

var reasonNames = [reasons]string{"too_many", "too_large", "over_memory"}

// counters counts refusals by reason.
type counters [reasons]atomic.Uint64

func (c *counters) add(why reason) { c[why].Add(1) }

var serverTable = metric.NewTable("http_", []string{"server"},
	metric.Gauge("connections", metric.None, "Open connections.", func(s connectionStats) int { return s.open }),
	metric.Counter("connections_evicted", metric.None, "Connections without a request that were closed to make room for others.", func(s connectionStats) uint64 { return s.evicted }),
	metric.Counter("connections_refused", metric.None, "Connections that were refused because all others had requests in flight.", func(s connectionStats) uint64 { return s.refused }),
)

var requestTable = metric.NewTable("http_", []string{"server", "class"},
	metric.Gauge("requests_in_flight", metric.None, "Requests in flight, by the limit that they count against.", func(n int) int { return n }),
)

var refusedTable = metric.NewTable("http_", []string{"server", "reason"},
	metric.Counter("requests_refused", metric.None, "Requests that were refused, by the reason: too_many in flight, too_large for their size, over_memory of the process.", func(n uint64) uint64 { return n }),
)

var memoryTable = metric.NewTable("http_", nil,
	metric.Gauge("memory", metric.Bytes, "Memory of requests in flight.", func(b *Budget) int64 { return b.Used() }),
	metric.Gauge("memory_limit", metric.Bytes, "Limit of the memory of requests in flight, which the servers of a process share.", func(b *Budget) int64 { return b.Bytes() }),
)

// Metrics describes the metrics of servers.
func Metrics() []metric.Info {
	return metric.Infos(serverTable, requestTable, refusedTable, memoryTable)
}

// NewCollector returns a collector for the servers of a process. The servers share a Budget.
func NewCollector(servers ...*Server) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, s := range servers {
			s.collect(out)
		}
		if len(servers) > 0 {
			memoryTable.Show(out, servers[0].options.Memory)
		}
	}, serverTable, requestTable, refusedTable, memoryTable)
}

type connectionStats struct {
	open             int
	evicted, refused uint64
}

func (s *Server) collect(out chan<- prometheus.Metric) {
	name := s.options.Name
	s.conns.mu.Lock()
	connections := connectionStats{s.conns.open + s.conns.spare, s.conns.evicted, s.conns.refused}
	s.conns.mu.Unlock()
	serverTable.Show(out, connections, name)
	for class, places := range s.classes {
		if places != nil {
			requestTable.Show(out, len(places), name, Class(class).String())
		}
	}
	for why := range s.refusals {
		refusedTable.Show(out, s.refusals[why].Load(), name, reasonNames[why])
	}
}
