package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/stream"
)

// Metrics describes the metrics of servers of pipelines and of gateways, those of an
// embedded log among them.
func Metrics() []metric.Info { return figures.Infos() }

// metrics serves the figures, those of HTTP servers and the process's own.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		figures.Collector(s.snapshot),
	)
	servers := []*server.Server{s.http}
	if s.options.Gateway != nil && s.options.Gateway.HTTP != nil {
		servers = append(servers, s.options.Gateway.HTTP)
	}
	registry.MustRegister(server.NewCollector(servers...))
	if s.options.Tokens != nil {
		registry.MustRegister(access.NewTokensCollector(s.options.Tokens))
	}
	registry.MustRegister(s.options.Collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Snapshot is what a process does, with what metrics alone show.
type Snapshot struct {
	Status
	lags     []observe.Lag
	bounds   []bound
	restores []stream.Restoring // states that are restored
	standbys []stream.Standby   // copies of states that other processes own
	log      *embedded.Stats
	gateway  *Gateway
}

const journalTimeout = 5 * time.Second // to read the counts of all pipelines

// snapshot returns what the process does, for metrics: lag is that of the latest measurement.
// The counts of a journal that cannot be read are left out, so that the rest is shown.
func (s *Server) snapshot() *Snapshot {
	all := &Snapshot{gateway: s.options.Gateway}
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	for _, r := range s.options.Runners {
		p := s.pipeline(r)
		var err error
		if p.Journal, err = s.journalOf(ctx, p.Name); err != nil {
			s.options.Logger.Warn("metrics lack the journal", "pipeline", p.Name, "reason", err)
		}
		all.Pipelines = append(all.Pipelines, p)
	}
	all.lags, all.bounds = s.lag.latestLag()
	if log, ok := s.log.(stream.Restorer); ok {
		all.restores = log.Restores()
	}
	if log, ok := s.log.(stream.Follower); ok {
		all.standbys = log.Standbys()
	}
	if s.options.Stats != nil {
		stats := s.options.Stats()
		all.log = &stats
	}
	return all
}

// Print prints the tables of a status: one that has no rows is left out.
func (s *Status) Print(out io.Writer) error { return figures.Print(out, &Snapshot{Status: *s}) }
