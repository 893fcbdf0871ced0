package serve

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/stream"
)

// restoreCollector shows the states that are being read back.
type restoreCollector struct {
	log           stream.Restorer
	left, seconds *prometheus.Desc
}

func newRestoreCollector(log stream.Restorer) *restoreCollector {
	by := []string{"group", "topic", "partition"}
	return &restoreCollector{log,
		prometheus.NewDesc("afterbay_restore_records", "Records of the changelog that are still to be read before the partition goes on; absent when its state is there.", by, nil),
		prometheus.NewDesc("afterbay_restore_seconds", "Time since the partition was assigned and its state began to be read.", by, nil)}
}

// Describe implements prometheus.Collector.
func (c *restoreCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.left
	descs <- c.seconds
}

// Collect implements prometheus.Collector.
func (c *restoreCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.log.Restores() {
		by := []string{r.Group, r.Partition.Topic, fmt.Sprint(r.Partition.Index)}
		metrics <- prometheus.MustNewConstMetric(c.left, prometheus.GaugeValue, float64(r.Left), by...)
		metrics <- prometheus.MustNewConstMetric(c.seconds, prometheus.GaugeValue, r.Took.Seconds(), by...)
	}
}

// standbyCollector shows the copies of states that other processes own.
type standbyCollector struct {
	log    stream.Follower
	behind *prometheus.Desc
}

func newStandbyCollector(log stream.Follower) *standbyCollector {
	return &standbyCollector{log, prometheus.NewDesc("afterbay_standby_records",
		"Records of the changelog that a warm copy of another process's state lacks; absent where the process keeps none.", []string{"group", "topic", "partition"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *standbyCollector) Describe(descs chan<- *prometheus.Desc) { descs <- c.behind }

// Collect implements prometheus.Collector.
func (c *standbyCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.log.Standbys() {
		metrics <- prometheus.MustNewConstMetric(c.behind, prometheus.GaugeValue, float64(s.Behind), s.Group, s.Partition.Topic, fmt.Sprint(s.Partition.Index))
	}
}
