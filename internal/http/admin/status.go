package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Status is what a process does, as JSON.
type Status struct {
	Version    string           `json:"version"`
	PID        int              `json:"pid"`
	Started    time.Time        `json:"started"`
	Checkpoint *Checkpoint      `json:"checkpoint,omitempty"` // of the embedded log
	Pipelines  []PipelineStatus `json:"pipelines"`
	Gateway    *GatewayStatus   `json:"gateway,omitempty"`
}

// GatewayStatus is how the gateway of a process stands.
type GatewayStatus struct {
	Name  string `json:"name"`
	Ended string `json:"ended,omitempty"` // why it ended while the pipelines go on
}

// Checkpoint is the newest one of the state of an embedded log.
type Checkpoint struct {
	Number uint64  `json:"number"` // since the process began
	Took   float64 `json:"took_seconds"`
	Bytes  uint64  `json:"bytes"`      // of all that is checkpointed
	Behind uint64  `json:"lag_frames"` // that a restart would redo
}

// PipelineStatus is what a pipeline did since the process began. Times are those of
// events from their append until their outputs were durable.
type PipelineStatus struct {
	Name      string           `json:"name"`
	Input     string           `json:"input"`
	Outputs   []string         `json:"outputs"`
	Models    []string         `json:"models"`
	Counts    observe.Counts   `json:"counts"`
	Lag       int64            `json:"lag"`    // records not yet committed
	Queued    int64            `json:"queued"` // events in the async queue
	Times     Times            `json:"times"`
	Phases    map[string]Times `json:"phases"`
	Cases     []CaseStatus     `json:"cases,omitempty"`   // of its first route
	Stopped   *control.Stop    `json:"stopped,omitempty"` // it is stopped for its dead letters
	Ended     string           `json:"ended,omitempty"`   // why it, or a sink of it, ended while the others go on
	Sources   []Source         `json:"sources"`
	Scored    []ScoredStatus   `json:"scored,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	Groups    []GroupStatus    `json:"groups,omitempty"`
	Sinks     []SinkStatus     `json:"sinks,omitempty"`
	Journal   []journal.Count  `json:"journal,omitempty"` // since the pipeline began
}

// Times are quantiles of times in seconds.
type Times struct {
	Events uint64  `json:"events,omitempty"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
}

// CaseStatus is what events took that went through a case of a route.
type CaseStatus struct {
	Case string `json:"case"`
	Times
	Limit  float64 `json:"limit_seconds,omitempty"` // which 99 of 100 of its events are to keep; 0 is that of the pipeline's budget
	Missed uint64  `json:"missed,omitempty"`        // events that took longer than the limit
}

func caseStatus(m *observe.Metrics, i int) CaseStatus {
	limit, missed := m.CaseMissed(i)
	return CaseStatus{m.Cases()[i], timesOf(m.Case(i)), limit.Seconds(), missed}
}

// ScoredStatus is what came of the rows that a model was asked for, wherever it is
// computed.
type ScoredStatus struct {
	Model   string `json:"model"`   // name@version
	Rows    uint64 `json:"rows"`    // asked for; again counts again
	Refused uint64 `json:"refused"` // of these, those over which it failed, and not over others
	Faults  uint64 `json:"faults"`  // of these, those over which it failed whatever they were, or did not answer
}

// EndpointStatus is how the service stands that a model is called at.
type EndpointStatus struct {
	Model   string `json:"model"`   // name@version
	State   string `json:"state"`   // of its breaker: closed, open or half-open
	Calls   uint64 `json:"calls"`   // of which the answer or fault is known
	Faults  uint64 `json:"faults"`  // of these
	Running int    `json:"running"` // calls
	Limit   int    `json:"limit"`   // of them
}

// GroupStatus is how the groups of a step stand.
type GroupStatus struct {
	Group      string `json:"group"`
	Open       int64  `json:"open"`
	Bytes      int64  `json:"bytes"` // of the events of those that are open, in the state
	Duplicates uint64 `json:"duplicates"`
	Late       uint64 `json:"late"`
}

// SinkStatus is what a sink did.
type SinkStatus struct {
	Sink      string `json:"sink"`
	Delivered uint64 `json:"delivered"` // records that the service took
	Older     uint64 `json:"older"`     // of these, those that changed nothing
	Repeated  uint64 `json:"repeated"`  // left out: the service took their id before
	Dead      uint64 `json:"dead_letters"`
	Calls     uint64 `json:"calls"`
	Failures  uint64 `json:"failures"` // of the calls
	Waiting   int64  `json:"waiting"`
	Resting   bool   `json:"resting"` // the service fails and is only probed
	Fresh     Times  `json:"fresh"`   // from the event time of records until the service had them
}

func timesOf(s *observe.Snapshot) Times {
	return Times{s.Count, s.Quantile(0.5).Seconds(), s.Quantile(0.99).Seconds()}
}

// status replies with what the process does.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	all, err := s.Status(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, all)
}

// Status returns what the process does.
func (s *Server) Status(ctx context.Context) (Status, error) {
	all := Status{Version: s.options.Version, PID: os.Getpid(), Started: s.started.UTC(), Pipelines: []PipelineStatus{}}
	if s.options.Stats != nil {
		stats := s.options.Stats()
		all.Checkpoint = &Checkpoint{
			Number: stats.State.Checkpoints, Took: stats.State.CheckpointTime.Seconds(), Bytes: stats.State.DiskBytes,
			Behind: stats.Applied - min(stats.Applied, stats.Checkpointed),
		}
	}
	for _, runner := range s.options.Runners {
		p, err := s.pipelineStatus(ctx, runner)
		if err != nil {
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

func (s *Server) pipelineStatus(ctx context.Context, runner *pipeline.Runner) (PipelineStatus, error) {
	metrics := runner.Metrics()
	p := PipelineStatus{
		Name: runner.Name(), Input: runner.Input(), Outputs: runner.Outputs(), Models: runner.Plan.Models,
		Counts: runner.Counts(), Queued: metrics.Memory().Parked, Times: timesOf(metrics.Whole()), Phases: map[string]Times{}, Stopped: runner.Stopped(),
		Sources: s.backlogs.sources(time.Now(), runner),
	}
	if why := errors.Join(runner.Ended(), runner.SinksEnded()); why != nil {
		p.Ended = why.Error()
	}
	list, err := s.local.lag.Measure(ctx, s.log, runner.Reads()...)
	if err != nil {
		return p, err
	}
	for _, l := range list {
		p.Lag += l.Records
	}
	for _, phase := range observe.Phases {
		p.Phases[phase.String()] = timesOf(metrics.Phase(phase))
	}
	for i := range metrics.Cases() {
		p.Cases = append(p.Cases, caseStatus(metrics, i))
	}
	for model, o := range runner.Scored() {
		p.Scored = append(p.Scored, ScoredStatus{model, o.Rows, o.Refused, o.Faults})
	}
	slices.SortFunc(p.Scored, func(a, b ScoredStatus) int { return cmp.Compare(a.Model, b.Model) })
	for model, endpoint := range runner.Endpoints() {
		breaker, concurrency := endpoint.Breaker.Stats(), endpoint.Concurrency.Stats()
		p.Endpoints = append(p.Endpoints, EndpointStatus{model, breaker.State.String(), breaker.Calls, breaker.Faults, concurrency.Running, concurrency.Limit})
	}
	slices.SortFunc(p.Endpoints, func(a, b EndpointStatus) int { return cmp.Compare(a.Model, b.Model) })
	for _, g := range runner.Groups() {
		p.Groups = append(p.Groups, GroupStatus{g.Name, g.Open, g.Bytes, g.Duplicates, g.Late})
	}
	for i, m := range runner.SinkMetrics() {
		p.Sinks = append(p.Sinks, sinkStatus(runner.Sinks[i].Name, m))
	}
	p.Journal, err = s.journalOf(ctx, runner.Name())
	return p, err
}

func sinkStatus(name string, m *sinks.Metrics) SinkStatus {
	calls, fresh := &observe.Snapshot{}, &observe.Snapshot{}
	calls.Add(&m.Call)
	fresh.Add(&m.Fresh)
	return SinkStatus{
		Sink: name, Delivered: m.Delivered.Load(), Older: m.Older.Load(), Repeated: m.Repeated.Load(), Dead: m.Refused.Load(),
		Calls: calls.Count, Failures: m.Failures.Load(), Waiting: m.Waiting.Load(), Resting: m.Resting.Load(), Fresh: timesOf(fresh),
	}
}

// journalOf adds up what the journals beside the partitions of a pipeline count.
func (s *Server) journalOf(ctx context.Context, pipeline string) ([]journal.Count, error) {
	var sum journal.Stats
	for entry, err := range s.local.EntriesOf(ctx, pipeline, statekey.JournalHead) {
		if errors.Is(err, ErrUnknownPipeline) { // it has committed nothing
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

// Status returns what the process does.
func (c *Client) Status(ctx context.Context) (all Status, err error) {
	return all, c.call(ctx, http.MethodGet, "/v1/status", nil, &all)
}
