package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/journal"
)

// journalCollector reads what journals count, which is in the state beside the
// partitions: what they were good for since their pipeline began, not the process.
type journalCollector struct {
	figures[journal.Count]
	runners []*afterbay.Runner
	counts  func(ctx context.Context, pipeline string) ([]journal.Count, error)
	logger  *slog.Logger
}

const journalTimeout = 5 * time.Second // to read the counts of all pipelines

func newJournalCollector(s *Server) *journalCollector {
	c := &journalCollector{figures[journal.Count]{prefix: "journal_", labels: []string{"pipeline", "model"}}, s.options.Runners, s.journalOf, s.options.Logger}
	const counter = prometheus.CounterValue
	c.add(counter, "calls_total", "Answers that came back, paid for.", func(m journal.Count) float64 { return float64(m.Calls) })
	c.add(counter, "hits_total", "Requests that took the answer of an earlier call.", func(m journal.Count) float64 { return float64(m.Hits) })
	c.add(counter, "again_total", "Of the calls, those whose request had an answer: paid once more.", func(m journal.Count) float64 { return float64(m.Again) })
	c.add(counter, "units_paid_total", "Calls or tokens that the calls cost.", func(m journal.Count) float64 { return float64(m.Paid) })
	c.add(counter, "units_saved_total", "Calls or tokens that the hits would have cost.", func(m journal.Count) float64 { return float64(m.Saved) })
	return c
}

// Collect implements prometheus.Collector. What cannot be read is left out: the
// other metrics are worth more.
func (c *journalCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	for _, r := range c.runners {
		counts, err := c.counts(ctx, r.Name())
		if err != nil {
			c.logger.Warn("metrics lack the journal", "pipeline", r.Name(), "reason", err)
			continue
		}
		for _, m := range counts {
			c.show(metrics, m, r.Name(), m.Model)
		}
	}
}
