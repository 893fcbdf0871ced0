package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/lookup"
)

// lookupCollector reads what lookups outside of the log count when it is asked for.
type lookupCollector struct {
	figures[lookup.Stats]
	runners []*afterbay.Runner
}

func newLookupCollector(runners []*afterbay.Runner) *lookupCollector {
	c := &lookupCollector{figures[lookup.Stats]{prefix: "lookup_", labels: []string{"pipeline", "lookup"}}, runners}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.add(counter, "keys_total", "Keys looked up outside of the log.", func(s lookup.Stats) float64 { return float64(s.Keys) })
	c.add(counter, "kept_total", "Keys whose row was kept, so that no call was needed.", func(s lookup.Stats) float64 { return float64(s.Kept) })
	c.add(counter, "calls_total", "Calls for rows.", func(s lookup.Stats) float64 { return float64(s.Calls) })
	c.add(gauge, "kept_bytes", "Memory of rows that are kept.", func(s lookup.Stats) float64 { return float64(s.Bytes) })
	return c
}

// Collect implements prometheus.Collector.
func (c *lookupCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		for _, l := range r.Lookups() {
			c.show(metrics, l.Stats, r.Name(), l.Name)
		}
	}
}
