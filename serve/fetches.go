package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/fetch"
)

// fetchCollector reads what fetch steps count when it is asked for.
type fetchCollector struct {
	figures[fetch.Stats]
	runners []*afterbay.Runner
}

func newFetchCollector(runners []*afterbay.Runner) *fetchCollector {
	c := &fetchCollector{figures[fetch.Stats]{prefix: "fetch_", labels: []string{"pipeline"}}, runners}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.add(counter, "contents_total", "Contents that were fetched.", func(s fetch.Stats) float64 { return float64(s.Objects) })
	c.add(counter, "bytes_total", "Bytes of contents that were fetched.", func(s fetch.Stats) float64 { return float64(s.Bytes) })
	c.add(counter, "faults_total", "Fetches that hosts, buckets or disks were at fault for: their events wait.", func(s fetch.Stats) float64 { return float64(s.Faults) })
	c.add(counter, "unfetched_total", "Fetches of what is missing, refused or too large.", func(s fetch.Stats) float64 { return float64(s.Unfetched) })
	c.add(counter, "again_total", "Contents that were fetched again, since they were not kept until a model was given them.", func(s fetch.Stats) float64 { return float64(s.Again) })
	c.add(counter, "changed_total", "Contents that were others when they were fetched again: their events are dead letters.", func(s fetch.Stats) float64 { return float64(s.Changed) })
	c.add(counter, "places_forgotten_total", "Hosts and buckets whose faults were forgotten, since those of 1,024 at most are counted.", func(s fetch.Stats) float64 { return float64(s.Forgotten) })
	c.add(counter, "cache_hits_total", "Contents for models that were kept.", func(s fetch.Stats) float64 { return float64(s.Hits) })
	c.add(counter, "cache_misses_total", "Contents for models that were not kept.", func(s fetch.Stats) float64 { return float64(s.Misses) })
	c.add(counter, "cache_evicted_bytes_total", "Bytes of contents that made room for others.", func(s fetch.Stats) float64 { return float64(s.Evicted) })
	c.add(gauge, "cache_bytes", "Bytes of contents that are kept.", func(s fetch.Stats) float64 { return float64(s.Kept) })
	return c
}

// Collect implements prometheus.Collector.
func (c *fetchCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		if s, ok := r.Fetched(); ok {
			c.show(metrics, s, r.Name())
		}
	}
}
