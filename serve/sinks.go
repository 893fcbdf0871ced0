package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/deliver"
	"github.com/afterbay/afterbay/observe"
)

// sinkCollector reads the metrics of sinks when they are asked for.
type sinkCollector struct {
	figures[*deliver.Metrics]
	runners []*afterbay.Runner
	times   [2]*prometheus.Desc // of calls, and how fresh records are
}

func newSinkCollector(runners []*afterbay.Runner) *sinkCollector {
	by := []string{"pipeline", "sink"}
	c := &sinkCollector{figures[*deliver.Metrics]{prefix: "sink_", labels: by}, runners,
		[2]*prometheus.Desc{prometheus.NewDesc("afterbay_sink_call_seconds", "Time of the calls of a sink's service.", by, nil),
			prometheus.NewDesc("afterbay_sink_fresh_seconds", "Time from the event time of records until the service had them.", by, nil)}}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c.add(counter, "delivered_total", "Records that the service took.", func(m *deliver.Metrics) float64 { return float64(m.Delivered.Load()) })
	c.add(counter, "repeated_total", "Records left out, since the service took their id before.", func(m *deliver.Metrics) float64 { return float64(m.Repeated.Load()) })
	c.add(counter, "dead_letters_total", "Records that became dead letters.", func(m *deliver.Metrics) float64 { return float64(m.Refused.Load()) })
	c.add(counter, "older_total", "Records that changed nothing, as the service held something newer of their key.", func(m *deliver.Metrics) float64 { return float64(m.Older.Load()) })
	c.add(counter, "foreign_total", "Dead letters of records whose key the service held from another partition.", func(m *deliver.Metrics) float64 { return float64(m.Foreign.Load()) })
	c.add(counter, "failures_total", "Calls that failed and are made again.", func(m *deliver.Metrics) float64 { return float64(m.Failures.Load()) })
	c.add(counter, "sessions_rejoined_total", "Sessions that were fenced and joined again.", func(m *deliver.Metrics) float64 { return float64(m.Rejoined.Load()) })
	c.add(counter, "pauses_total", "Times that a partition was not read on, since as many of its records are held as may be, or an object of them is made.", func(m *deliver.Metrics) float64 { return float64(m.Pauses.Load()) })
	c.add(gauge, "waiting", "Records held for the service.", func(m *deliver.Metrics) float64 { return float64(m.Waiting.Load()) })
	c.add(gauge, "calling", "Calls under way.", func(m *deliver.Metrics) float64 { return float64(m.Calling.Load()) })
	c.add(gauge, "resting", "1 while the service fails and is only probed.", func(m *deliver.Metrics) float64 { return yes(m.Resting.Load()) })
	return c
}

// Describe implements prometheus.Collector.
func (c *sinkCollector) Describe(descs chan<- *prometheus.Desc) {
	c.figures.Describe(descs)
	for _, d := range c.times {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *sinkCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		for i, m := range r.SinkMetrics() {
			name := r.Sinks()[i].Name
			c.show(metrics, m, r.Name(), name)
			for i, h := range []*observe.Histogram{&m.Call, &m.Fresh} {
				times := &observe.Snapshot{}
				times.Add(h)
				metrics <- &histogram{c.times[i], []*dto.LabelPair{label("pipeline", r.Name()), label("sink", name)}, times}
			}
		}
	}
}
