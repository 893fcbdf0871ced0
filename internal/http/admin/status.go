package admin

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Status is the status of a process, as JSON.
type Status struct {
	Version    string              `json:"version"`
	PID        int                 `json:"pid"`
	Started    time.Time           `json:"started"`
	Checkpoint *Checkpoint         `json:"checkpoint,omitempty"` // of the embedded log
	Pipelines  []pipeline.Snapshot `json:"pipelines"`
	Gateway    *GatewayStatus      `json:"gateway,omitempty"`
}

// GatewayStatus is the status of the gateway of a process.
type GatewayStatus struct {
	Name  string `json:"name"`
	Ended string `json:"ended,omitempty"` // why it ended while the pipelines continue
}

// Checkpoint is the newest checkpoint of an embedded log's state.
type Checkpoint struct {
	Number uint64  `json:"number"` // checkpoints since the process began
	Took   float64 `json:"took_seconds"`
	Bytes  uint64  `json:"bytes"`      // size of the whole checkpoint
	Behind uint64  `json:"lag_frames"` // frames that a restart would read again
}

// status replies with the status of the process.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	all, err := s.Status(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, all)
}

// Status returns the status of the process.
func (s *Server) Status(ctx context.Context) (Status, error) {
	all := Status{Version: s.options.Version, PID: os.Getpid(), Started: s.started.UTC(), Pipelines: []pipeline.Snapshot{}}
	if s.options.Stats != nil {
		stats := s.options.Stats()
		all.Checkpoint = &Checkpoint{
			Number: stats.State.Checkpoints, Took: stats.State.CheckpointTime.Seconds(), Bytes: stats.State.DiskBytes,
			Behind: stats.Applied - min(stats.Applied, stats.Checkpointed),
		}
	}
	for _, runner := range s.options.Runners {
		p := s.pipeline(runner)
		lags, err := s.local.LagOf(ctx, runner.Reads()...)
		if err != nil {
			return all, err
		}
		for _, l := range lags {
			p.Lag += l.Records
		}
		if p.Journal, err = s.journalOf(ctx, p.Name); err != nil {
			return all, err
		}
		all.Pipelines = append(all.Pipelines, p)
	}
	if g := s.options.Gateway; g != nil {
		all.Gateway = &GatewayStatus{Name: g.Name}
		if why := g.ended(); why != nil {
			all.Gateway.Ended = why.Error()
		}
	}
	return all, nil
}

// pipeline returns the snapshot of a pipeline, with its backlogs and candidates.
func (s *Server) pipeline(r *pipeline.Runner) pipeline.Snapshot {
	p := r.Snapshot()
	p.Sources = append(p.Sources, s.backlogs.sources(time.Now(), r)...)
	if s.options.Candidates != nil {
		p.Candidates = s.options.Candidates(p.Name)
	}
	return p
}

// journalOf sums up the journal counts over the partitions of a pipeline.
func (s *Server) journalOf(ctx context.Context, pipeline string) ([]journal.Count, error) {
	var sum journal.Stats
	for entry, err := range s.local.EntriesOf(ctx, pipeline, statekey.JournalHead) {
		if errors.Is(err, inspect.ErrUnknownPipeline) { // the pipeline has not committed anything
			break
		}
		if err != nil {
			return nil, err
		}
		stats, err := journal.ReadStats(entry.Value)
		if err != nil {
			return nil, err
		}
		sum.Add(stats)
	}
	return sum.Models, nil
}

// Status returns the status of the process.
func (c *Client) Status(ctx context.Context) (all Status, err error) {
	return all, c.call(ctx, http.MethodGet, "/v1/status", nil, &all)
}
