package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

type endpointStats struct {
	breaker     control.BreakerStats
	concurrency control.ConcurrencyStats
	readiness   control.ReadinessStats
}

const shared = " Pipelines that share the endpoint all show the same value."

var endpointTable = metric.NewTable("endpoint_", []string{"pipeline", "model"},
	metric.Gauge("calls_in_flight", metric.None, "Calls of the model's endpoint in flight."+shared, func(s endpointStats) int { return s.concurrency.Running }),
	metric.Gauge("call_limit", metric.None, "Calls that may be in flight: the adaptive limit of concurrency."+shared, func(s endpointStats) int { return s.concurrency.Limit }),
	metric.Counter("call_limit_decreases", metric.None, "Times that the limit of concurrency decreased."+shared, func(s endpointStats) uint64 { return s.concurrency.Falls }),
	metric.Flag("down", "1 while the breaker of the endpoint is not closed, so that only probes call it."+shared, func(s endpointStats) bool { return s.breaker.State != control.Closed }),
	metric.Counter("calls", metric.None, "Calls of the endpoint that ended with a reply or a fault."+shared, func(s endpointStats) uint64 { return s.breaker.Calls }),
	metric.Counter("faults", metric.None, "Calls that failed because of the model's server or the network, not because of the event."+shared, func(s endpointStats) uint64 { return s.breaker.Faults }),
	metric.Counter("breaker_opened", metric.None, "Times that the breaker opened, failed probes included."+shared, func(s endpointStats) uint64 { return s.breaker.Opened }),
	metric.Counter("ready_checks", metric.None, "Requests that asked the endpoint if it is ready, because a call failed and no later call has succeeded."+shared, func(s endpointStats) uint64 { return s.readiness.Asked }),
	metric.Counter("ready_checks_failed", metric.None, "Ready checks without the reply that the endpoint is ready."+shared, func(s endpointStats) uint64 { return s.readiness.Not }),
)

// newEndpointCollector shows the state of the services that models call.
func newEndpointCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for model, e := range r.Endpoints() {
				endpointTable.Show(out, endpointStats{e.Breaker.Stats(), e.Concurrency.Stats(), e.Readiness.Stats()}, r.Name(), model)
			}
		}
	}, endpointTable)
}
