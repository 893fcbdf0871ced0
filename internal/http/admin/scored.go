package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

var scoredTable = metric.NewTable("scored_", []string{"pipeline", "model"},
	metric.Counter("rows", metric.None, "Rows that the model was called with. A row that is sent again counts again.", func(o batch.Outcomes) uint64 { return o.Rows }),
	metric.Counter("rows_refused", metric.None, "Rows that the model refused while it scored others.", func(o batch.Outcomes) uint64 { return o.Refused }),
	metric.Counter("rows_faulted", metric.None, "Rows without a score because the model's server failed for all rows or did not reply.", func(o batch.Outcomes) uint64 { return o.Faults }),
)

// newScoredCollector shows the outcomes of rows, by model.
func newScoredCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for model, outcomes := range r.Scored() {
				scoredTable.Show(out, outcomes, r.Name(), model)
			}
		}
	}, scoredTable)
}
