package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

var passTable = metric.NewTable("", []string{"pipeline", "pass"},
	metric.Gauge("compile", metric.Seconds, "Time that each pass of the compiler took for the pipeline: bind, open, check, schedule, lower, fingerprints. Models and lookups are opened in the pass open.", time.Duration.Seconds),
)

// newPassCollector shows how long the passes of the compiler took.
func newPassCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for pass, took := range r.Took {
				passTable.Show(out, took, r.Name(), compile.Pass(pass).String())
			}
		}
	}, passTable)
}
