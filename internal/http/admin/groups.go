package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/task/group"
)

var groupTable = metric.NewTable("", []string{"pipeline", "group"},
	metric.Gauge("group_open", metric.None, "Groups that have not ended.", func(s pipeline.GroupStats) int64 { return s.Open }),
	metric.Gauge("group", metric.Bytes, "Stored bytes of the events of groups that have not ended.", func(s pipeline.GroupStats) int64 { return s.Bytes }),
	metric.Counter("group_duplicate_events", metric.None, "Events that were left out because their group had an event of the same id.", func(s pipeline.GroupStats) uint64 { return s.Duplicates }),
	metric.Counter("group_late_events", metric.None, "Events whose group had ended.", func(s pipeline.GroupStats) uint64 { return s.Late }),
)

var groupEndTable = metric.NewTable("", []string{"pipeline", "group", "reason"},
	metric.Counter("group_ended", metric.None, "Groups that ended, by the reason.", func(n uint64) uint64 { return n }),
)

// newGroupCollector shows what groups count.
func newGroupCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for _, g := range r.Groups() {
				groupTable.Show(out, g, r.Name(), g.Name)
				for i, reason := range group.Reasons() {
					groupEndTable.Show(out, g.Ended[i], r.Name(), g.Name, reason)
				}
			}
		}
	}, groupTable, groupEndTable)
}
