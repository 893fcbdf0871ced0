package admin

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/state/journal"
)

const journalTimeout = 5 * time.Second // to read the counts of all pipelines

var journalTable = metric.NewTable("journal_", []string{"pipeline", "model"},
	metric.Counter("calls", metric.None, "Calls that returned an answer, since the pipeline began.", func(m journal.Count) uint64 { return m.Calls }),
	metric.Counter("hits", metric.None, "Requests that took the answer of an earlier call.", func(m journal.Count) uint64 { return m.Hits }),
	metric.Counter("repeated_calls", metric.None, "Calls for a request that already had an answer: paid twice.", func(m journal.Count) uint64 { return m.Again }),
	metric.Counter("units_paid", metric.None, "Calls or tokens that were paid for, by the model's unit.", func(m journal.Count) uint64 { return m.Paid }),
	metric.Counter("units_saved", metric.None, "Calls or tokens that the hits would have cost.", func(m journal.Count) uint64 { return m.Saved }),
)

// newJournalCollector shows what journals count. The counts are in the state beside
// the partitions: they begin with the pipeline, not with the process. Counts that
// cannot be read are left out, so that the other metrics are shown.
func newJournalCollector(s *Server) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
		defer cancel()
		for _, r := range s.options.Runners {
			counts, err := s.journalOf(ctx, r.Name())
			if err != nil {
				s.options.Logger.Warn("metrics lack the journal", "pipeline", r.Name(), "reason", err)
				continue
			}
			for _, m := range counts {
				journalTable.Show(out, m, r.Name(), m.Model)
			}
		}
	}, journalTable)
}
