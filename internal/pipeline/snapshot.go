package pipeline

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
)

// Snapshot is the state of a pipeline and the counts since it was made. It is immutable. Its JSON
// is the pipeline in GET /v1/status. Times are in seconds.
//
// Lag, Journal and the backlogs among Sources are in the log: the server that reads the log adds
// them, and the candidates of the process.
type Snapshot struct {
	Name        string           `json:"name"`
	Input       string           `json:"input"`
	Outputs     []string         `json:"outputs"`
	Models      []string         `json:"models"`
	Counts      observe.Counts   `json:"counts"`
	Memory      observe.Memory   `json:"memory"`
	Generations map[int32]uint64 `json:"generations,omitempty"` // by partition that this process owns
	Lag         int64            `json:"lag"`                   // records not yet committed
	Queued      int64            `json:"queued"`                // events in the async queue
	Times       Times            `json:"times"`                 // times of events from their append until their outputs were durable
	Phases      map[string]Times `json:"phases"`
	Cases       []Case           `json:"cases,omitempty"`   // cases of its first route
	Stopped     *control.Stop    `json:"stopped,omitempty"` // set if too many dead letters stopped it
	Ended       string           `json:"ended,omitempty"`   // why it, or one of its sinks, ended while the others continue
	Sources     []Source         `json:"sources"`
	Parts

	Took     compile.Took  `json:"-"` // compile time of each pass
	Spent    observe.Spent `json:"-"` // use of the budget
	OddTimes []string      `json:"-"` // a finding for each input with first event times that look wrong
	Asked    []Asked       `json:"-"` // requests of a dry run (Options.DryRun)
}

// Parts holds the state and the counts of the parts of a pipeline.
type Parts struct {
	Scored    []Scored        `json:"scored,omitempty"`
	Endpoints []Endpoint      `json:"endpoints,omitempty"`
	Lookups   []Lookup        `json:"lookups,omitempty"`
	Fetched   *fetch.Stats    `json:"fetched,omitempty"` // nil without fetches
	Schemas   *SchemaStats    `json:"schemas,omitempty"` // requests to a schema registry; nil without one
	Groups    []Group         `json:"groups,omitempty"`
	Joins     []Join          `json:"joins,omitempty"`
	Order     *Order          `json:"order,omitempty"` // nil if the topic is read in its own order
	Sinks     []Sink          `json:"sinks,omitempty"`
	Journal   []journal.Count `json:"journal,omitempty"` // since the pipeline began

	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is the state of a candidate: a model that runs beside one of the pipeline, over the same
// events.
type Candidate struct {
	Candidate   string `json:"candidate"` // name@version
	Mode        string `json:"mode"`
	Generation  uint64 `json:"generation,omitempty"` // 0 before it begins
	Running     bool   `json:"running"`
	Lag         int64  `json:"lag"`             // events that the live pipeline has committed and the candidate has not
	Failures    uint64 `json:"failures"`        // times that it ended with an error
	Error       string `json:"error,omitempty"` // of the newest failure, until it runs again
	DeadLetters uint64 `json:"dead_letters"`    // of this process, since its newest start
}

// SchemaStats counts the requests to a schema registry.
type SchemaStats = compile.SchemaStats

// Times holds quantiles of times in seconds.
type Times struct {
	Events    uint64            `json:"events,omitempty"`
	P50       float64           `json:"p50_seconds"`
	P99       float64           `json:"p99_seconds"`
	Histogram *observe.Snapshot `json:"-"` // nil after Times was sent as JSON
}

// Case holds the times of events that took a case of a route.
type Case struct {
	Case string `json:"case"`
	Times
	Limit  float64 `json:"limit_seconds,omitempty"` // time that 99 of 100 of its events must meet; 0 is the limit of the pipeline's budget
	Missed uint64  `json:"missed,omitempty"`        // events that took longer than the limit
}

// Source is the state of a source at a bounded queue of a pipeline.
type Source struct {
	Pipeline         string  `json:"pipeline"`
	Topic            string  `json:"topic"`
	Queue            string  `json:"queue"` // async, which pauses the reading of the topic, or backlog, which refuses new records
	State            string  `json:"state"` // full-rate, throttled, or model-down: reading is paused until the model works again
	Waiting          int     `json:"waiting"`
	Max              int     `json:"max"`
	High             int     `json:"high"`
	Low              int     `json:"low"`
	Switches         int     `json:"switches"`          // changes of state since the start
	ThrottledSeconds float64 `json:"throttled_seconds"` // since the start
	Refused          uint64  `json:"refused,omitempty"` // refused requests
}

// NewSource returns the state of a source at a gate.
func NewSource(pipeline, topic, queue string, marks control.GateOptions, is control.GateState) Source {
	return Source{
		Pipeline: pipeline, Topic: topic, Queue: queue, State: is.String(), Waiting: is.Depth, Max: marks.Max, High: marks.High, Low: marks.Low,
		Switches: is.Switches, ThrottledSeconds: is.Paused.Seconds(),
	}
}

// Scored counts the rows that a model was asked for, wherever it runs.
type Scored struct {
	Model   string `json:"model"`   // name@version
	Rows    uint64 `json:"rows"`    // rows asked for; a retry counts again
	Refused uint64 `json:"refused"` // of these: rows that caused the failure themselves
	Faults  uint64 `json:"faults"`  // of these: rows that failed because of the model, or without an answer
}

// Endpoint is the state of the service of a model. Pipelines may share it.
type Endpoint struct {
	Model   string `json:"model"`   // name@version
	State   string `json:"state"`   // state of its breaker: closed, open or half-open
	Calls   uint64 `json:"calls"`   // calls with a known answer or fault
	Faults  uint64 `json:"faults"`  // of these, the faults
	Running int    `json:"running"` // calls in flight
	Limit   int    `json:"limit"`   // most calls in flight

	LimitDecreases    uint64 `json:"limit_decreases"`
	BreakerOpened     uint64 `json:"breaker_opened"`
	ReadyChecks       uint64 `json:"ready_checks"`
	ReadyChecksFailed uint64 `json:"ready_checks_failed"`
}

// Lookup counts the results of the lookups of a name outside of the log.
type Lookup struct {
	Lookup string `json:"lookup"`
	lookups.Stats
}

// Group is the state of the groups of a step.
type Group struct {
	Group      string            `json:"group"`
	Open       int64             `json:"open"`
	Bytes      int64             `json:"bytes"` // bytes of the state of open groups
	Duplicates uint64            `json:"duplicates"`
	Late       uint64            `json:"late"`
	Ended      map[string]uint64 `json:"ended"` // by reason: complete, idle, timeout, full, window
}

// Join is the state of the join of a pipeline.
type Join struct {
	Join      string `json:"join"`
	Rows      int64  `json:"rows"`      // events that wait for others of their pairs
	Bytes     int64  `json:"bytes"`     // bytes of these in the state
	Matched   uint64 `json:"matched"`   // left events that continued with a right event, or pairs
	Unmatched uint64 `json:"unmatched"` // left events without a right event, which continued or were dropped
	Unclaimed uint64 `json:"unclaimed"` // right events that no left event took
	Unkept    uint64 `json:"unkept"`    // right events that a left event took, without room to wait for others
}

// Sink holds the counts and the state of a sink.
type Sink struct {
	Sink      string `json:"sink"`
	Delivered uint64 `json:"delivered"` // records that the service accepted
	Older     uint64 `json:"older"`     // of these: records that changed nothing
	Repeated  uint64 `json:"repeated"`  // records skipped because the service already had their id
	Dead      uint64 `json:"dead_letters"`
	Calls     uint64 `json:"calls"`
	Failures  uint64 `json:"failures"` // failed calls
	Waiting   int64  `json:"waiting"`
	Resting   bool   `json:"resting"` // the service fails and receives only probes
	Fresh     Times  `json:"fresh"`   // time from the event time of records until the service had them

	Foreign  uint64 `json:"foreign"` // dead letters of records with a key that the service had from another partition
	Rejoined uint64 `json:"members_rejoined"`
	Pauses   uint64 `json:"pauses"`
	Running  int64  `json:"running"` // calls in flight
	Call     Times  `json:"call"`    // time of the calls
}

func timesOf(s *observe.Snapshot) Times {
	return Times{s.Count, s.Quantile(0.5).Seconds(), s.Quantile(0.99).Seconds(), s}
}

// Snapshot returns the state of the pipeline. It may be called at any time. It sums histograms, so
// a loop that waits should use Counts.
func (r *Runner) Snapshot() Snapshot {
	metrics := r.metrics[0]
	s := Snapshot{
		Name: r.Name(), Input: r.Input(), Outputs: r.Outputs(), Models: r.Plan.Models,
		Counts: r.Counts(), Memory: r.memory(), Generations: metrics.Generations(),
		Times: timesOf(metrics.Whole()), Phases: map[string]Times{}, Took: r.Took, Spent: metrics.Spent(), Sources: []Source{},
		Parts: Parts{
			Scored: scored(r.Plan), Endpoints: endpoints(r.Plan), Lookups: found(r.Finds),
			Groups: groups(r.Plan, r.tasks[0].Groups()), Joins: joins(r.Plan, r.tasks[0].Joins()), Order: r.Order(time.Now()), Sinks: delivered(r.Sinks, r.sunk),
		},
		Asked: asked(r.muted),
	}
	s.Queued = s.Memory.Queued
	for _, phase := range metrics.Phases() {
		s.Phases[phase.String()] = timesOf(metrics.Phase(phase))
	}
	for i, name := range metrics.Cases() {
		limit, missed := metrics.CaseMissed(i)
		s.Cases = append(s.Cases, Case{name, timesOf(metrics.Case(i)), limit.Seconds(), missed})
	}
	for _, abort := range r.aborts {
		s.Stopped = cmp.Or(s.Stopped, abort.Stopped())
	}
	why := r.Ended()
	for i := range r.Sinks {
		why = errors.Join(why, r.ended.of(compile.GroupOf(&r.Sinks[i].Sink, r.Name())))
	}
	if why != nil {
		s.Ended = why.Error()
	}
	if r.Plan.Queues() {
		s.Sources = append(s.Sources, asyncSource(r.Plan, &s))
	}
	if r.Fetcher != nil {
		stats := r.Fetcher.Stats()
		s.Fetched = &stats
	}
	if r.Schemas != nil {
		stats := r.Schemas.Stats()
		s.Schemas = &stats
	}
	for _, t := range r.tasks {
		if text := t.OddTimes(); text != "" {
			s.OddTimes = append(s.OddTimes, text)
		}
	}
	return s
}

// memory returns the memory use of the pipeline and its stages. Repartitioners have no keyed state.
func (r *Runner) memory() observe.Memory {
	all := r.metrics[0].Memory()
	for _, m := range r.metrics[1+len(r.Copies):] {
		of := m.Memory()
		all.Keys += of.Keys
		all.KeyBytes += of.KeyBytes
		all.ExpiryBytes += of.ExpiryBytes
		all.HeldBytes += of.HeldBytes
		all.SpilledBytes += of.SpilledBytes
	}
	return all
}

// asyncSource returns the state of the input at the async queue. It is throttled while a member has
// as many queued events as Queue.High allows. The throttled time is that of the member that was
// throttled longest.
func asyncSource(plan *task.Plan, s *Snapshot) Source {
	source := NewSource(s.Name, plan.Topic, "async", plan.Queue, control.GateState{
		Throttled: s.Memory.Throttled > 0, Depth: int(s.Queued), Switches: int(s.Counts.Switches),
		Paused: time.Duration(s.Memory.ThrottledMost) * time.Microsecond,
	})
	if s.Memory.Down > 0 {
		source.State = "model-down"
	}
	return source
}

// scored sums the counts of the rows of each model, by name.
func scored(plan *task.Plan) (list []Scored) {
	for i := range plan.Stages {
		how := plan.Stages[i].How()
		if how == nil {
			continue
		}
		counted := batch.CountedOf(how.Model)
		if counted == nil { // a lookup, or a fetch
			continue
		}
		at, known := slices.BinarySearchFunc(list, how.Name, func(s Scored, name string) int { return cmp.Compare(s.Model, name) })
		if !known {
			list = slices.Insert(list, at, Scored{Model: how.Name})
		}
		o, s := counted.Outcomes(), &list[at]
		s.Rows, s.Refused, s.Faults = s.Rows+o.Rows, s.Refused+o.Refused, s.Faults+o.Faults
	}
	return list
}

// endpoints returns the services that are called through a breaker, by name.
func endpoints(plan *task.Plan) (list []Endpoint) {
	for i := range plan.Stages {
		how := plan.Stages[i].How()
		if how == nil || how.Calling == nil {
			continue
		}
		at, known := slices.BinarySearchFunc(list, how.Name, func(e Endpoint, name string) int { return cmp.Compare(e.Model, name) })
		if !known {
			list = slices.Insert(list, at, Endpoint{})
		}
		e := how.Calling.Endpoint
		breaker, calls, ready := e.Breaker.Stats(), e.Concurrency.Stats(), e.Readiness.Stats()
		list[at] = Endpoint{
			how.Name, breaker.State.String(), breaker.Calls, breaker.Faults, calls.Running, calls.Limit, calls.Falls, breaker.Opened, ready.Asked, ready.Not,
		}
	}
	return list
}

// found sums the counts of lookups outside of the log, by name. Cases of a route may share a
// lookup.
func found(finders []lang.Finder) (list []Lookup) {
	for _, f := range finders {
		i := slices.IndexFunc(list, func(l Lookup) bool { return l.Lookup == f.Name })
		if i < 0 {
			i, list = len(list), append(list, Lookup{Lookup: f.Name})
		}
		list[i].Stats = list[i].Plus(f.Stats())
	}
	return list
}

func groups(plan *task.Plan, counts []group.Counts) (list []Group) {
	for i, g := range plan.Groups.Groups {
		c := &counts[i]
		s := Group{Group: g.Name, Open: c.Open.Load(), Bytes: c.Bytes.Load(), Duplicates: c.Duplicates.Load(), Late: c.Late.Load(), Ended: map[string]uint64{}}
		for reason, word := range group.Reasons() {
			s.Ended[word] = c.Ended[reason].Load()
		}
		list = append(list, s)
	}
	return list
}

func joins(plan *task.Plan, c *join.Counts) []Join {
	if plan.Joins.Join == nil {
		return nil
	}
	return []Join{{
		Join: plan.Joins.Join.Name, Rows: c.Rows.Load(), Bytes: c.Bytes.Load(), Matched: c.Matched.Load(), Unmatched: c.Unmatched.Load(), Unclaimed: c.Unclaimed.Load(), Unkept: c.Unkept.Load(),
	}}
}

func delivered(to []compile.Sunk, sunk []*sinks.Metrics) (list []Sink) {
	for i, m := range sunk {
		calls, fresh := &observe.Snapshot{}, &observe.Snapshot{}
		calls.Add(&m.Call)
		fresh.Add(&m.Fresh)
		list = append(list, Sink{
			Sink: to[i].Name, Delivered: m.Delivered.Load(), Older: m.Older.Load(), Repeated: m.Repeated.Load(), Dead: m.Refused.Load(),
			Calls: calls.Count, Failures: m.Failures.Load(), Waiting: m.Waiting.Load(), Resting: m.Resting.Load(), Fresh: timesOf(fresh),
			Foreign: m.Foreign.Load(), Rejoined: m.Rejoined.Load(), Pauses: m.Pauses.Load(), Running: m.Calling.Load(), Call: timesOf(calls),
		})
	}
	return list
}
