package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// metrics serves what the pipelines count, and the process's own figures.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newPipelineCollector(s.options.Runners),
		newPassCollector(s.options.Runners),
		newScoredCollector(s.options.Runners),
		newJournalCollector(s),
		newEndpointCollector(s.options.Runners),
		newLagCollector(s.lag),
		newBacklogCollector(s.backlogs),
		newSinkCollector(s.options.Runners),
		newLookupCollector(s.options.Runners),
		newGroupCollector(s.options.Runners),
		newFetchCollector(s.options.Runners),
		newBudgetCollector(s.options.Runners),
	)
	if log, ok := s.log.(stream.Restorer); ok {
		registry.MustRegister(newRestoreCollector(log))
	}
	if log, ok := s.log.(stream.Follower); ok {
		registry.MustRegister(newStandbyCollector(log))
	}
	servers := []*server.Server{s.http}
	if s.options.Gateway != nil {
		if s.options.Gateway.HTTP != nil {
			servers = append(servers, s.options.Gateway.HTTP)
		}
		registry.MustRegister(newBoundsCollector(s.options.Gateway), newTokensCollector(s.options.Gateway.Tokens))
		if s.options.Gateway.Server != nil {
			registry.MustRegister(GatewayCollector(s.options.Gateway.Server))
		}
	}
	registry.MustRegister(server.NewCollector(servers...))
	if s.options.Tokens != nil {
		registry.MustRegister(access.NewTokensCollector(s.options.Tokens))
	}
	registry.MustRegister(s.options.Collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// pipelineStats is what a pipeline counts.
type pipelineStats struct {
	observe.Counts
	memory observe.Memory
	runner *pipeline.Runner
}

var pipelineTable = metric.NewTable("", []string{"pipeline"},
	metric.Counter("events", metric.None, "Events that were processed and are durable.", func(p pipelineStats) uint64 { return p.Events }),
	metric.Counter("outputs", metric.None, "Outputs that were written, without dead letters.", func(p pipelineStats) uint64 { return p.Outputs }),
	metric.Counter("dead_letters", metric.None, "Events that became dead letters.", func(p pipelineStats) uint64 { return p.DeadLetters }),
	metric.Counter("late_events", metric.None, "Events with a time before the watermark.", func(p pipelineStats) uint64 { return p.Late }),
	metric.Counter("dropped_events", metric.None, "Events that a drop policy left out.", func(p pipelineStats) uint64 { return p.Dropped }),
	metric.Counter("duplicate_events", metric.None, "Events that were left out because the pipeline had processed their id before.", func(p pipelineStats) uint64 { return p.Duplicates }),
	metric.Counter("approximate_outputs", metric.None, "Outputs that read a window with more events than its max.", func(p pipelineStats) uint64 { return p.Approximate }),
	metric.Counter("timers_fired", metric.None, "Timers of functions that fired.", func(p pipelineStats) uint64 { return p.Timers }),
	metric.Counter("commits", metric.None, "Transactions that were committed.", func(p pipelineStats) uint64 { return p.Steps }),
	metric.Counter("partitions_assigned", metric.None, "Partitions that were assigned to members.", func(p pipelineStats) uint64 { return p.Assigned }),
	metric.Counter("members_rejoined", metric.None, "Members that were fenced and joined their group again.", func(p pipelineStats) uint64 { return p.Rejoined }),
	metric.Counter("model_calls", metric.None, "Calls of models.", func(p pipelineStats) uint64 { return p.ModelCalls }),
	metric.Counter("model_rows", metric.None, "Rows that models scored.", func(p pipelineStats) uint64 { return p.ModelRows }),
	metric.Counter("key_loads", metric.None, "Keys that were decoded from the committed state.", func(p pipelineStats) uint64 { return p.KeyLoads }),
	metric.Counter("key_evictions", metric.None, "Decoded keys that were removed from memory because it was full.", func(p pipelineStats) uint64 { return p.KeyEvictions }),
	metric.Counter("async_queue_enqueued", metric.None, "Events that entered the async queue.", func(p pipelineStats) uint64 { return p.Parkings }),
	metric.Counter("async_queue_retries", metric.None, "Calls that were repeated for events of the async queue.", func(p pipelineStats) uint64 { return p.Retries }),
	metric.Counter("throttle_switches", metric.None, "Times that a member stopped or resumed reading because of the length of the async queue.", func(p pipelineStats) uint64 { return p.Switches }),
	metric.Counter("throttled", metric.Seconds, "Time that members did not read because the async queue was full, summed over members.", func(p pipelineStats) float64 { return p.ThrottledSeconds }),
	metric.Gauge("throttled_members", metric.None, "Members that do not read because the async queue is as long as its high mark.", func(p pipelineStats) int64 { return p.memory.Throttled }),
	metric.Gauge("paused_members", metric.None, "Members that do not read because a model with open: pause is down.", func(p pipelineStats) int64 { return p.memory.Down }),
	metric.Gauge("async_queue_events", metric.None, "Events in the async queue.", func(p pipelineStats) int64 { return p.memory.Parked }),
	metric.Gauge("keys", metric.None, "Decoded keys in memory.", func(p pipelineStats) int64 { return p.memory.Keys }),
	metric.Gauge("key", metric.Bytes, "Memory of decoded keys.", func(p pipelineStats) int64 { return p.memory.KeyBytes }),
	metric.Gauge("expiry", metric.Bytes, "Memory of the times at which keys expire and timers fire.", func(p pipelineStats) int64 { return p.memory.DueBytes }),
	metric.Flag("pipeline_stopped", "1 while the pipeline is stopped because too many of its events become dead letters.", func(p pipelineStats) bool { return p.runner.Stopped() != nil }),
	metric.Flag("pipeline_ended", "1 after the pipeline or one of its sinks ended because its topic got more partitions.", func(p pipelineStats) bool { return p.runner.Ended() != nil || p.runner.SinksEnded() != nil }),
	metric.Histogram("event", "Time of events from their append until their outputs were durable.", func(p pipelineStats) metric.Times { return buckets(p.runner.Metrics().Whole()) }),
)

// classStats are the events of the async queue that have one priority class.
type classStats struct {
	waiting    int64
	dispatched uint64
	waited     float64 // seconds
}

var classTable = metric.NewTable("async_queue_", []string{"pipeline", "priority"},
	metric.Gauge("waiting_events", metric.None, "Events of the async queue that wait until a call may start for them.", func(c classStats) int64 { return c.waiting }),
	metric.Counter("dispatched", metric.None, "Events of the async queue for which a call started.", func(c classStats) uint64 { return c.dispatched }),
	metric.Counter("wait", metric.Seconds, "Time that events of the async queue waited until a call started for them, summed over events.", func(c classStats) float64 { return c.waited }),
)

var modelBatchTable = metric.NewTable("model_", []string{"pipeline", "reason"},
	metric.Counter("batches", metric.None, "Batches of rows that were scored, by the reason for scoring them at that moment: full, idle (no more rows were waiting), waited (the first row had waited long enough), due (a deadline was near).", func(n uint64) uint64 { return n }),
)

var phaseTable = metric.NewTable("", []string{"pipeline", "phase"},
	metric.Histogram("phase", "Time of events in each phase: queue, feature, model, emit, commit.", buckets),
)

var caseTable = metric.NewTable("", []string{"pipeline", "case"},
	metric.Histogram("case", "Time of events from their append until their outputs were durable, by the case of the first route of the pipeline that they took.", buckets),
)

var generationTable = metric.NewTable("", []string{"pipeline", "partition"},
	metric.Gauge("pipeline_generation", metric.None, "Generation of the pipeline that processes a partition in this process. Partitions differ while the pipeline moves to another generation.", func(n uint64) uint64 { return n }),
)

func newPipelineCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			showPipeline(out, r)
		}
	}, pipelineTable, classTable, modelBatchTable, phaseTable, caseTable, generationTable)
}

func showPipeline(out chan<- prometheus.Metric, r *pipeline.Runner) {
	p, name, m := pipelineStats{r.Counts(), r.Metrics().Memory(), r}, r.Name(), r.Metrics()
	pipelineTable.Show(out, p, name)
	for i := range p.Turns {
		c := classStats{p.memory.Due[i], p.Turns[i], p.WaitSeconds[i]}
		classTable.Show(out, c, name, (control.HighClass + control.Class(i)).String())
	}
	for reason, n := range map[batch.Reason]uint64{batch.Full: p.ModelFull, batch.Idle: p.ModelIdle, batch.Waited: p.ModelWaited, batch.Due: p.ModelDue} {
		modelBatchTable.Show(out, n, name, reason.String())
	}
	for _, phase := range observe.Phases {
		phaseTable.Show(out, m.Phase(phase), name, phase.String())
	}
	for i, of := range m.Cases() {
		caseTable.Show(out, m.Case(i), name, of)
	}
	for partition, n := range m.Generations() {
		generationTable.Show(out, n, name, strconv.Itoa(int(partition)))
	}
}
