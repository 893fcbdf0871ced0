package serving

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

// stats holds the counters of a handler.
type stats struct {
	predictions atomic.Int64
	errors      atomic.Int64
	unread      atomic.Int64
}

func (s *stats) count(right, wrong int64) {
	s.predictions.Add(right)
	s.errors.Add(wrong)
}

var handlerTable = metric.NewTable("serve_", nil,
	metric.Counter("predictions", metric.None, "Rows of streams that were scored.", func(h *Handler) int64 { return h.stats.predictions.Load() }),
	metric.Counter("record_errors", metric.None, "Records of streams that were answered with an error.", func(h *Handler) int64 { return h.stats.errors.Load() }),
	metric.Counter("unread_streams", metric.None, "Streams that ended because their client did not read the answers.", func(h *Handler) int64 { return h.stats.unread.Load() }),
	metric.Gauge("spill", metric.Bytes, "Size of the files of answers that wait for their clients.", func(h *Handler) int64 { return h.spills.used.Load() }),
)

var callTable = metric.NewTable("serve_", []string{"model", "reason"},
	metric.Counter("model_batches", metric.None, "Calls of models with a batch of rows, by the reason for the call at that moment: full, idle (no more rows were waiting), waited (the first row had waited long enough), due (a deadline was near).", func(n uint64) uint64 { return n }),
)

var reasons = []batch.Reason{batch.Full, batch.Idle, batch.Waited, batch.Due}

// Metrics describes the metrics of a Server, except those of package server and of token files.
func Metrics() []metric.Info {
	return append(metric.Infos(handlerTable, callTable), requestsInfo, requestInfo, tokensInfo)
}

// Collectors returns collectors for the counters of a handler.
func (h *Handler) Collectors() []prometheus.Collector {
	return append(h.measures.all(), metric.NewCollector(func(out chan<- prometheus.Metric) {
		handlerTable.Show(out, h)
		for _, m := range h.models.order {
			for _, r := range reasons {
				callTable.Show(out, m.shared.Flushed(r), m.pinned(), r.String())
			}
		}
	}, handlerTable, callTable))
}
