package admin

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/stream"
)

var partitionLabels = []string{"group", "topic", "partition"}

var restoreTable = metric.NewTable("", partitionLabels,
	metric.Gauge("restore_remaining_records", metric.None, "Records of the changelog to read before the partition is processed. Absent if its state is restored.", func(r stream.Restoring) int64 { return r.Left }),
	metric.Gauge("restore", metric.Seconds, "Time since the partition was assigned and the restore of its state began.", func(r stream.Restoring) time.Duration { return r.Took }),
)

// newRestoreCollector shows the states that are restored.
func newRestoreCollector(log stream.Restorer) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range log.Restores() {
			restoreTable.Show(out, r, r.Group, r.Partition.Topic, fmt.Sprint(r.Partition.Index))
		}
	}, restoreTable)
}

var standbyTable = metric.NewTable("standby_", partitionLabels,
	metric.Gauge("lag_records", metric.None, "Records of the changelog that the standby copy of another process's state lacks. Absent if this process has no copy.", func(s stream.Standby) int64 { return s.Behind }),
)

// newStandbyCollector shows the copies of states that other processes own.
func newStandbyCollector(log stream.Follower) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, s := range log.Standbys() {
			standbyTable.Show(out, s, s.Group, s.Partition.Topic, fmt.Sprint(s.Partition.Index))
		}
	}, standbyTable)
}
