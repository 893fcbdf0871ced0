package serve

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/control"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/stream"
)

// metrics serves what the pipelines count, and the process's own figures.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newPipelineCollector(s.options.Runners),
		newScoredCollector(s.options.Runners),
		newJournalCollector(s),
		newEndpointCollector(s.options.Runners),
		newLagCollector(s.lag),
		s.backlogs,
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
	servers := server.Collector{s.http}
	if s.options.Gateway != nil {
		if s.options.Gateway.HTTP != nil {
			servers = append(servers, s.options.Gateway.HTTP)
		}
		registry.MustRegister(newBoundsCollector(s.options.Gateway), newTokensCollector(s.options.Gateway.Tokens))
		if s.options.Gateway.Server != nil {
			registry.MustRegister(GatewayCollector(s.options.Gateway.Server))
		}
	}
	registry.MustRegister(servers)
	if s.options.Tokens != nil {
		registry.MustRegister(access.NewTokensCollector(s.options.Tokens))
	}
	registry.MustRegister(s.options.Collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// pipelineCollector reads the metrics of tasks when they are asked for.
type pipelineCollector struct {
	runners []*afterbay.Runner
	counts  figures[observe.Counts]
	gauges  figures[observe.Memory]
	turns   [3]*prometheus.Desc // by class: due, called for, and how long those waited
	hop     *prometheus.Desc
	way     *prometheus.Desc
	stopped *prometheus.Desc
	ended   *prometheus.Desc

	generation *prometheus.Desc // by partition
}

func newPipelineCollector(runners []*afterbay.Runner) *pipelineCollector {
	by := []string{"pipeline"}
	c := &pipelineCollector{
		runners: runners, counts: figures[observe.Counts]{labels: by}, gauges: figures[observe.Memory]{labels: by},
		way:        prometheus.NewDesc("afterbay_case_seconds", "Time of events from their append until their outputs were durable, by the case that they took of the pipeline's first route.", []string{"pipeline", "case"}, nil),
		hop:        prometheus.NewDesc("afterbay_hop_seconds", "Time of events in each hop: queue, feature, model, emit, commit.", []string{"pipeline", "hop"}, nil),
		stopped:    prometheus.NewDesc("afterbay_pipeline_stopped", "1 while the pipeline stands still because too much of what it takes becomes dead letters.", by, nil),
		ended:      prometheus.NewDesc("afterbay_pipeline_ended", "1 after the pipeline, or a sink of it, ended because its topic got more partitions.", by, nil),
		generation: prometheus.NewDesc("afterbay_pipeline_generation", "Generation of the pipeline that computes a partition of this process. Where partitions differ, so do those who wrote the outputs.", []string{"pipeline", "partition"}, nil),
	}
	add := func(name, help string, value func(observe.Counts) uint64) {
		c.counts.add(prometheus.CounterValue, name+"_total", help, func(c observe.Counts) float64 { return float64(value(c)) })
	}
	add("events", "Events processed and durable.", func(c observe.Counts) uint64 { return c.Events })
	add("outputs", "Outputs written, dead letters aside.", func(c observe.Counts) uint64 { return c.Outputs })
	add("dead_letters", "Events that became dead letters.", func(c observe.Counts) uint64 { return c.DeadLetters })
	add("late_events", "Events before the watermark.", func(c observe.Counts) uint64 { return c.Late })
	add("dropped_events", "Events left out by a drop policy.", func(c observe.Counts) uint64 { return c.Dropped })
	add("duplicates", "Events left out because they were seen before.", func(c observe.Counts) uint64 { return c.Duplicates })
	add("approximate_outputs", "Outputs that read a window beyond its max.", func(c observe.Counts) uint64 { return c.Approximate })
	add("timers", "Timers of functions that fired.", func(c observe.Counts) uint64 { return c.Timers })
	add("steps", "Steps committed.", func(c observe.Counts) uint64 { return c.Steps })
	add("sessions_rejoined", "Sessions that were fenced and joined again.", func(c observe.Counts) uint64 { return c.Rejoined })
	add("model_calls", "Calls of models.", func(c observe.Counts) uint64 { return c.ModelCalls })
	add("model_rows", "Rows scored by models.", func(c observe.Counts) uint64 { return c.ModelRows })
	add("model_batches_full", "Batches of rows scored because they were full.", func(c observe.Counts) uint64 { return c.ModelFull })
	add("model_batches_idle", "Batches of rows scored because nothing more was waiting.", func(c observe.Counts) uint64 { return c.ModelIdle })
	add("model_batches_waited", "Batches of rows scored because the first had waited.", func(c observe.Counts) uint64 { return c.ModelWaited })
	add("model_batches_due", "Batches of rows scored because a deadline was near.", func(c observe.Counts) uint64 { return c.ModelDue })
	add("parkings", "Times that events were parked.", func(c observe.Counts) uint64 { return c.Parkings })
	add("throttle_switches", "Changes of sessions between reading and not, for what is parked.", func(c observe.Counts) uint64 { return c.Switches })
	add("throttled_microseconds", "Time that sessions did not read for it, added up.", func(c observe.Counts) uint64 { return c.ThrottledMicros })
	add("retries", "Times that parked events are called for again.", func(c observe.Counts) uint64 { return c.Retries })
	add("key_loads", "Keys decoded from the committed state.", func(c observe.Counts) uint64 { return c.KeyLoads })
	add("key_evictions", "Decoded keys forgotten for want of room.", func(c observe.Counts) uint64 { return c.KeyEvictions })
	measure := func(name, help string, value func(observe.Memory) int64) {
		c.gauges.add(prometheus.GaugeValue, name, help, func(m observe.Memory) float64 { return float64(value(m)) })
	}
	measure("keys", "Decoded keys in memory.", func(m observe.Memory) int64 { return m.Keys })
	measure("key_bytes", "Memory of decoded keys.", func(m observe.Memory) int64 { return m.KeyBytes })
	measure("parked", "Events that wait off the loop.", func(m observe.Memory) int64 { return m.Parked })
	measure("throttled", "Sessions that do not read, for as many events are parked as the high mark says.", func(m observe.Memory) int64 { return m.Throttled })
	measure("model_down", "Sessions that do not read, for an endpoint with open: pause is down.", func(m observe.Memory) int64 { return m.Down })
	measure("due_bytes", "Memory of when keys fall silent and timers are due.", func(m observe.Memory) int64 { return m.DueBytes })
	for i, of := range [][2]string{{"due", "Parked events that wait for their turn."}, {"turns_total", "Parked events that were called for."},
		{"turns_microseconds_total", "Time that they waited for their turns, added up."}} {
		c.turns[i] = prometheus.NewDesc("afterbay_parked_"+of[0], of[1], []string{"pipeline", "class"}, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *pipelineCollector) Describe(descs chan<- *prometheus.Desc) {
	c.counts.Describe(descs)
	c.gauges.Describe(descs)
	for _, d := range c.turns {
		descs <- d
	}
	descs <- c.hop
	descs <- c.way
	descs <- c.stopped
	descs <- c.ended
	descs <- c.generation
}

// Collect implements prometheus.Collector.
func (c *pipelineCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		counts := r.Counts()
		c.counts.show(metrics, counts, r.Name())
		memory := r.Metrics().Memory()
		c.gauges.show(metrics, memory, r.Name())
		for i := range memory.Due {
			class := (control.HighClass + control.Class(i)).String()
			metrics <- prometheus.MustNewConstMetric(c.turns[0], prometheus.GaugeValue, float64(memory.Due[i]), r.Name(), class)
			metrics <- prometheus.MustNewConstMetric(c.turns[1], prometheus.CounterValue, float64(counts.Turns[i]), r.Name(), class)
			metrics <- prometheus.MustNewConstMetric(c.turns[2], prometheus.CounterValue, float64(counts.TurnMicros[i]), r.Name(), class)
		}
		metrics <- prometheus.MustNewConstMetric(c.stopped, prometheus.GaugeValue, yes(r.Stopped() != nil), r.Name())
		metrics <- prometheus.MustNewConstMetric(c.ended, prometheus.GaugeValue, yes(r.Ended() != nil || r.SinksEnded() != nil), r.Name())
		for partition, n := range r.Metrics().Generations() {
			metrics <- prometheus.MustNewConstMetric(c.generation, prometheus.GaugeValue, float64(n), r.Name(), strconv.Itoa(int(partition)))
		}
		for i, name := range r.Metrics().Cases() {
			metrics <- &histogram{c.way, []*dto.LabelPair{label("case", name), label("pipeline", r.Name())}, r.Metrics().Case(i)}
		}
		for _, hop := range observe.Hops {
			metrics <- &histogram{c.hop, []*dto.LabelPair{label("hop", hop.String()), label("pipeline", r.Name())}, r.Metrics().Hop(hop)}
		}
	}
}

// histogram shows a snapshot as classic and as native buckets: the library's
// own constant histograms are one or the other.
type histogram struct {
	desc     *prometheus.Desc
	labels   []*dto.LabelPair // by name
	snapshot *observe.Snapshot
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

const (
	schema        = 3    // native buckets grow by 2^(2^-3), 9 %
	zeroThreshold = 1e-9 // seconds
)

// classicBounds are upper bounds of the classic buckets.
var classicBounds = [...]time.Duration{
	10 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute,
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric. A bucket of the snapshot is counted in
// the bucket that its upper bound falls into.
func (h *histogram) Write(out *dto.Metric) error {
	out.Label = h.labels
	sum, count, schema, threshold := h.snapshot.Sum.Seconds(), h.snapshot.Count, int32(schema), float64(zeroThreshold)
	shown := &dto.Histogram{SampleCount: &count, SampleSum: &sum, Schema: &schema, ZeroThreshold: &threshold}
	zero := uint64(0)
	shown.ZeroCount = &zero
	classic := make([]uint64, len(classicBounds))
	for upper, n := range h.snapshot.Each {
		if i, _ := slices.BinarySearch(classicBounds[:], upper); i < len(classic) {
			classic[i] += n
		}
		if upper.Seconds() <= threshold {
			zero += n
			continue
		}
		addNative(shown, int32(math.Ceil(math.Ldexp(math.Log2(upper.Seconds()), int(schema)))), int64(n))
	}
	seen := uint64(0)
	for i, n := range classic {
		seen += n
		bound, cumulative := classicBounds[i].Seconds(), seen
		shown.Bucket = append(shown.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &cumulative})
	}
	if len(shown.PositiveSpan) == 0 { // what tells a native histogram from a classic one
		shown.PositiveSpan = []*dto.BucketSpan{span(0, 0)}
	}
	out.Histogram = shown
	return nil
}

func span(offset int32, length uint32) *dto.BucketSpan {
	return &dto.BucketSpan{Offset: &offset, Length: &length}
}

// addNative counts n more in the native bucket of an index, which is the last
// one or a later one.
func addNative(h *dto.Histogram, index int32, n int64) {
	next := int32(0) // index after the last bucket
	var last, before int64
	for _, s := range h.PositiveSpan {
		next += s.GetOffset() + int32(s.GetLength())
	}
	for _, delta := range h.PositiveDelta {
		before = last
		last += delta
	}
	switch {
	case len(h.PositiveSpan) > 0 && index < next: // the same bucket
		h.PositiveDelta[len(h.PositiveDelta)-1] = last + n - before
		return
	case len(h.PositiveSpan) > 0 && index == next:
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
	default:
		h.PositiveSpan = append(h.PositiveSpan, span(index-next, 1))
	}
	h.PositiveDelta = append(h.PositiveDelta, n-last)
}
