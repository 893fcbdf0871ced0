package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

var fetchTable = metric.NewTable("fetch_", []string{"pipeline"},
	metric.Counter("contents", metric.None, "Contents that were fetched.", func(s fetch.Stats) uint64 { return s.Objects }),
	metric.Counter("content", metric.Bytes, "Bytes of contents that were fetched.", func(s fetch.Stats) uint64 { return s.Bytes }),
	metric.Counter("faults", metric.None, "Fetches that failed because of the host, bucket or disk. Their events wait.", func(s fetch.Stats) uint64 { return s.Faults }),
	metric.Counter("unfetched", metric.None, "Fetches of content that is missing, refused or too large.", func(s fetch.Stats) uint64 { return s.Unfetched }),
	metric.Counter("repeated", metric.None, "Contents that were fetched again because they left the cache before a model read them.", func(s fetch.Stats) uint64 { return s.Again }),
	metric.Counter("changed", metric.None, "Contents that differed when they were fetched again. Their events are dead letters.", func(s fetch.Stats) uint64 { return s.Changed }),
	metric.Counter("places_evicted", metric.None, "Hosts and buckets whose faults were forgotten because there are more than 1,024 of them.", func(s fetch.Stats) uint64 { return s.Forgotten }),
	metric.Counter("cache_hits", metric.None, "Contents for models that were in the cache.", func(s fetch.Stats) uint64 { return s.Hits }),
	metric.Counter("cache_misses", metric.None, "Contents for models that were not in the cache.", func(s fetch.Stats) uint64 { return s.Misses }),
	metric.Counter("cache_evicted", metric.Bytes, "Bytes of contents that left the cache because it was full.", func(s fetch.Stats) uint64 { return s.Evicted }),
	metric.Gauge("cache", metric.Bytes, "Bytes of contents in the cache.", func(s fetch.Stats) int64 { return s.Kept }),
)

// newFetchCollector shows what fetch steps count.
func newFetchCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			if s, ok := r.Fetched(); ok {
				fetchTable.Show(out, s, r.Name())
			}
		}
	}, fetchTable)
}
