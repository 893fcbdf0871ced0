package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/control"
)

// endpointCollector reads how the services stand that models are called at.
type endpointCollector struct {
	figures[endpointStats]
	runners []*afterbay.Runner
}

type endpointStats struct {
	breaker     control.BreakerStats
	concurrency control.ConcurrencyStats
	readiness   control.ReadinessStats
}

func newEndpointCollector(runners []*afterbay.Runner) *endpointCollector {
	c := &endpointCollector{figures[endpointStats]{prefix: "endpoint_", labels: []string{"pipeline", "model"}}, runners}
	add := func(kind prometheus.ValueType, name, help string, value func(endpointStats) float64) {
		c.add(kind, name, help+" Pipelines that share an endpoint each show all of it.", value)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(gauge, "calls", "Calls that hold a place at the model's endpoint.", func(s endpointStats) float64 { return float64(s.concurrency.Running) })
	add(gauge, "limit", "Calls that it is found to bear at a time.", func(s endpointStats) float64 { return float64(s.concurrency.Limit) })
	add(counter, "limit_falls_total", "Times that this fell.", func(s endpointStats) float64 { return float64(s.concurrency.Falls) })
	add(gauge, "down", "1 while its breaker is not closed: it is left alone, but for probes.", func(s endpointStats) float64 { return yes(s.breaker.State != control.Closed) })
	add(counter, "answers_total", "Calls of which the model's answer, or its fault, is known.", func(s endpointStats) float64 { return float64(s.breaker.Calls) })
	add(counter, "faults_total", "Of these, the faults: of the model, or of the way to it.", func(s endpointStats) float64 { return float64(s.breaker.Faults) })
	add(counter, "opened_total", "Times that its breaker opened, failed probes among them.", func(s endpointStats) float64 { return float64(s.breaker.Opened) })
	add(counter, "ready_checks_total", "Times that it was asked whether it is ready, since the failure of an event was followed by no answer.", func(s endpointStats) float64 { return float64(s.readiness.Asked) })
	add(counter, "ready_checks_failed_total", "Of these, the times that it was not ready.", func(s endpointStats) float64 { return float64(s.readiness.Not) })
	return c
}

// Collect implements prometheus.Collector.
func (c *endpointCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		for model, endpoint := range r.Endpoints() {
			c.show(metrics, endpointStats{endpoint.Breaker.Stats(), endpoint.Concurrency.Stats(), endpoint.Readiness.Stats()}, r.Name(), model)
		}
	}
}
