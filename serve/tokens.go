package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/token"
)

// tokensCollector shows what became of the tokens that clients showed, and how the
// set of keys stands that an identity provider publishes.
type tokensCollector struct {
	stats   func() token.Stats
	counts  figures[token.Stats]
	refused *prometheus.Desc
}

func newTokensCollector(stats func() token.Stats) *tokensCollector {
	c := &tokensCollector{
		stats:   stats,
		counts:  figures[token.Stats]{prefix: "gateway_"},
		refused: prometheus.NewDesc("afterbay_gateway_tokens_refused_total", "Tokens that were refused, by why.", []string{"reason"}, nil),
	}
	add := func(kind prometheus.ValueType, name, help string, value func(token.Stats) int64) {
		c.counts.add(kind, name, help, func(s token.Stats) float64 { return float64(value(s)) })
	}
	add(prometheus.CounterValue, "tokens_accepted_total", "Tokens that were accepted.", func(s token.Stats) int64 { return s.Accepted })
	add(prometheus.GaugeValue, "jwks_keys", "Keys of the JWKS that are in use.", func(s token.Stats) int64 { return int64(s.JWKS.Keys) })
	add(prometheus.CounterValue, "jwks_readings_total", "Readings of the JWKS.", func(s token.Stats) int64 { return s.JWKS.Readings })
	add(prometheus.CounterValue, "jwks_failures_total", "Of these, failures: the set before stayed.", func(s token.Stats) int64 { return s.JWKS.Failures })
	return c
}

// Describe implements prometheus.Collector.
func (c *tokensCollector) Describe(descs chan<- *prometheus.Desc) {
	c.counts.Describe(descs)
	descs <- c.refused
}

// Collect implements prometheus.Collector.
func (c *tokensCollector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.stats()
	c.counts.show(metrics, stats)
	for reason, n := range stats.Refused {
		metrics <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n), string(reason))
	}
}
