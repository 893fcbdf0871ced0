package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

var tokenTable = metric.NewTable("gateway_", nil,
	metric.Counter("tokens_accepted", metric.None, "Tokens of clients that were accepted.", func(s auth.Stats) int64 { return s.Accepted }),
	metric.Gauge("jwks_keys", metric.None, "Keys of the identity provider's key set (JWKS) in use.", func(s auth.Stats) int { return s.JWKS.Keys }),
	metric.Counter("jwks_reads", metric.None, "Reads of the key set.", func(s auth.Stats) int64 { return s.JWKS.Readings }),
	metric.Counter("jwks_read_failures", metric.None, "Reads of the key set that failed: the gateway keeps the previous keys.", func(s auth.Stats) int64 { return s.JWKS.Failures }),
)

var tokenRefusedTable = metric.NewTable("gateway_", []string{"reason"},
	metric.Counter("tokens_refused", metric.None, "Tokens of clients that were refused, by the reason.", func(n int64) int64 { return n }),
)

// newTokensCollector shows the checks of clients' tokens, and the state of the key
// set that an identity provider publishes.
func newTokensCollector(stats func() auth.Stats) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		s := stats()
		tokenTable.Show(out, s)
		for reason, n := range s.Refused {
			tokenRefusedTable.Show(out, n, string(reason))
		}
	}, tokenTable, tokenRefusedTable)
}
