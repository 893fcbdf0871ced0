package scoring

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/batch"
)

// stats are what a handler counts.
type stats struct {
	predictions atomic.Int64
	errors      atomic.Int64
	unread      atomic.Int64
}

func (s *stats) count(right, wrong int64) {
	s.predictions.Add(right)
	s.errors.Add(wrong)
}

// figure is one that a Handler shows.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(h *Handler) int64
}

func figures() []figure {
	counter := func(name, help string, value func(h *Handler) int64) figure {
		return figure{prometheus.NewDesc("afterbay_serve_"+name, help, nil, nil), prometheus.CounterValue, value}
	}
	gauge := func(name, help string, value func(h *Handler) int64) figure {
		return figure{prometheus.NewDesc("afterbay_serve_"+name, help, nil, nil), prometheus.GaugeValue, value}
	}
	return []figure{
		counter("predictions_total", "Rows of streams that were scored.", func(h *Handler) int64 { return h.stats.predictions.Load() }),
		counter("record_errors_total", "Records of streams that were not.", func(h *Handler) int64 { return h.stats.errors.Load() }),
		counter("unread_total", "Streams that ended since their answers were not read.", func(h *Handler) int64 { return h.stats.unread.Load() }),
		gauge("spill_bytes", "Files of answers that wait for their clients.", func(h *Handler) int64 { return h.spills.used.Load() }),
	}
}

var (
	callsDesc = prometheus.NewDesc("afterbay_serve_calls_total", "Calls of models, by why they were made then.", []string{"model", "reason"}, nil)
	reasons   = []batch.Reason{batch.Full, batch.Idle, batch.Waited, batch.Due}
)

// Describe implements prometheus.Collector.
func (h *Handler) Describe(out chan<- *prometheus.Desc) {
	for _, f := range h.figures {
		out <- f.desc
	}
	out <- callsDesc
	for _, c := range h.measures.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (h *Handler) Collect(out chan<- prometheus.Metric) {
	for _, c := range h.measures.all() {
		c.Collect(out)
	}
	for _, f := range h.figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(f.value(h)))
	}
	for _, m := range h.models.order {
		for _, r := range reasons {
			out <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(m.shared.Flushed(r)), m.pinned(), r.String())
		}
	}
}
