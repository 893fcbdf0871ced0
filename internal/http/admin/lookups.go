package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

var lookupTable = metric.NewTable("lookup_", []string{"pipeline", "lookup"},
	metric.Counter("keys", metric.None, "Keys that were looked up in the service.", func(s lookups.Stats) uint64 { return s.Keys }),
	metric.Counter("cache_hits", metric.None, "Keys whose row was in the cache, so that no call was needed.", func(s lookups.Stats) uint64 { return s.Kept }),
	metric.Counter("calls", metric.None, "Calls of the service.", func(s lookups.Stats) uint64 { return s.Calls }),
	metric.Gauge("cache", metric.Bytes, "Memory of the rows in the cache.", func(s lookups.Stats) int { return s.Bytes }),
)

// newLookupCollector shows what lookups in services count.
func newLookupCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for _, l := range r.Lookups() {
				lookupTable.Show(out, l.Stats, r.Name(), l.Name)
			}
		}
	}, lookupTable)
}
