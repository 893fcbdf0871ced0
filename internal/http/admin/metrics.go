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

// Metrics describes the metrics of servers, of pipelines and of gateways, including those of an
// embedded log.
func Metrics() []metric.Info { return figures.Infos() }

// metrics serves the figures, the metrics of HTTP servers and those of the process.
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

// Snapshot is the status of a process, plus data that only the metrics show.
type Snapshot struct {
	Status
	lags     []observe.Lag
	bounds   []bound
	restores []stream.Restoring // restores in progress
	standbys []stream.Standby   // standby copies of state that other processes own
	log      *embedded.Stats
	gateway  *Gateway
}

const journalTimeout = 5 * time.Second // for reading the counts of all pipelines

// snapshot returns the data for metrics. The lag is that of the latest measurement. If the counts
// of a journal cannot be read, snapshot leaves them out and returns the rest.
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

// Print prints the tables of a status. It leaves out tables without rows.
func (s *Status) Print(out io.Writer) error { return figures.Print(out, &Snapshot{Status: *s}) }
