package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/batch"
)

// scoredCollector reads what came of the rows that models were asked for.
type scoredCollector struct {
	figures[batch.Outcomes]
	runners []*afterbay.Runner
}

func newScoredCollector(runners []*afterbay.Runner) *scoredCollector {
	c := &scoredCollector{figures[batch.Outcomes]{prefix: "scored_", labels: []string{"pipeline", "model"}}, runners}
	const counter = prometheus.CounterValue
	c.add(counter, "rows_total", "Rows that the model was asked for, wherever it is computed; again counts again.", func(o batch.Outcomes) float64 { return float64(o.Rows) })
	c.add(counter, "refused_total", "Of these, those over which the model failed, and not over others.", func(o batch.Outcomes) float64 { return float64(o.Refused) })
	c.add(counter, "faults_total", "Of these, those over which it failed whatever they were, or did not answer.", func(o batch.Outcomes) float64 { return float64(o.Faults) })
	return c
}

// Collect implements prometheus.Collector.
func (c *scoredCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		for model, outcomes := range r.Scored() {
			c.show(metrics, outcomes, r.Name(), model)
		}
	}
}
