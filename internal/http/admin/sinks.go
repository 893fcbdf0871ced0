package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sinks"
)

var sinkTable = metric.NewTable("sink_", []string{"pipeline", "sink"},
	metric.Counter("delivered", metric.None, "Records that the service accepted.", func(m *sinks.Metrics) uint64 { return m.Delivered.Load() }),
	metric.Counter("duplicates", metric.None, "Records that were left out because the service had accepted their id before.", func(m *sinks.Metrics) uint64 { return m.Repeated.Load() }),
	metric.Counter("dead_letters", metric.None, "Records that became dead letters.", func(m *sinks.Metrics) uint64 { return m.Refused.Load() }),
	metric.Counter("older", metric.None, "Records that changed nothing because the service had a newer one of their key.", func(m *sinks.Metrics) uint64 { return m.Older.Load() }),
	metric.Counter("foreign", metric.None, "Dead letters of records whose key the service had from another partition.", func(m *sinks.Metrics) uint64 { return m.Foreign.Load() }),
	metric.Counter("call_failures", metric.None, "Calls that failed. The sink retries them.", func(m *sinks.Metrics) uint64 { return m.Failures.Load() }),
	metric.Counter("members_rejoined", metric.None, "Members that were fenced and joined their group again.", func(m *sinks.Metrics) uint64 { return m.Rejoined.Load() }),
	metric.Counter("pauses", metric.None, "Times that a partition was not read because the sink held as many of its records as it may, or wrote a file of them.", func(m *sinks.Metrics) uint64 { return m.Pauses.Load() }),
	metric.Gauge("waiting_records", metric.None, "Records that wait for the service, those of calls in flight included.", func(m *sinks.Metrics) int64 { return m.Waiting.Load() }),
	metric.Gauge("calls_in_flight", metric.None, "Calls of the service in flight.", func(m *sinks.Metrics) int64 { return m.Calling.Load() }),
	metric.Flag("down", "1 while the service fails and the sink only probes it.", func(m *sinks.Metrics) bool { return m.Resting.Load() }),
	metric.Histogram("call", "Time of the calls of the service.", func(m *sinks.Metrics) metric.Times { return bucketsOf(&m.Call) }),
	metric.Histogram("freshness", "Time from the event time of records until the service accepted them.", func(m *sinks.Metrics) metric.Times { return bucketsOf(&m.Fresh) }),
)

// newSinkCollector shows what sinks count.
func newSinkCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for i, m := range r.SinkMetrics() {
				sinkTable.Show(out, m, r.Name(), r.Sinks[i].Name)
			}
		}
	}, sinkTable)
}
