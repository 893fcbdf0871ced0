package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/group"
)

// groupCollector reads what groups count when it is asked for.
type groupCollector struct {
	figures[afterbay.GroupStats]
	runners []*afterbay.Runner
	ended   *prometheus.Desc
}

func newGroupCollector(runners []*afterbay.Runner) *groupCollector {
	labels := []string{"pipeline", "group"}
	c := &groupCollector{figures[afterbay.GroupStats]{prefix: "group_", labels: labels}, runners,
		prometheus.NewDesc("afterbay_group_ended_total", "Groups that ended.", append(labels, "reason"), nil)}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.add(gauge, "open", "Groups that have not ended.", func(s afterbay.GroupStats) float64 { return float64(s.Open) })
	c.add(gauge, "bytes", "Stored bytes of the events of groups that have not ended.", func(s afterbay.GroupStats) float64 { return float64(s.Bytes) })
	c.add(counter, "duplicates_total", "Events left out because their group had one of the same id.", func(s afterbay.GroupStats) float64 { return float64(s.Duplicates) })
	c.add(counter, "late_total", "Events whose group had ended.", func(s afterbay.GroupStats) float64 { return float64(s.Late) })
	return c
}

// Describe implements prometheus.Collector.
func (c *groupCollector) Describe(descs chan<- *prometheus.Desc) {
	c.figures.Describe(descs)
	descs <- c.ended
}

// Collect implements prometheus.Collector.
func (c *groupCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		for _, g := range r.Groups() {
			c.show(metrics, g, r.Name(), g.Name)
			for i, reason := range group.Reasons() {
				metrics <- prometheus.MustNewConstMetric(c.ended, prometheus.CounterValue, float64(g.Ended[i]), r.Name(), g.Name, reason)
			}
		}
	}
}
