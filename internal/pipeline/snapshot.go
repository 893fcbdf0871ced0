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

// Snapshot is what a pipeline has done since it was made, and how it stands. It does not
// change. In JSON it is what GET /v1/status shows of a pipeline; times are in seconds.
//
// Lag, Journal and the backlogs among Sources are in the log: the server that reads them
// adds them.
type Snapshot struct {
	Name        string           `json:"name"`
	Input       string           `json:"input"`
	Outputs     []string         `json:"outputs"`
	Models      []string         `json:"models"`
	Counts      observe.Counts   `json:"counts"`
	Memory      observe.Memory   `json:"memory"`
	Generations map[int32]uint64 `json:"generations,omitempty"` // by partition that this process has
	Lag         int64            `json:"lag"`                   // records not yet committed
	Queued      int64            `json:"queued"`                // events in the async queue
	Times       Times            `json:"times"`                 // of events from their append until their outputs were durable
	Phases      map[string]Times `json:"phases"`
	Cases       []Case           `json:"cases,omitempty"`   // of its first route
	Stopped     *control.Stop    `json:"stopped,omitempty"` // it is stopped for its dead letters
	Ended       string           `json:"ended,omitempty"`   // why it, or a sink of it, ended while the others go on
	Sources     []Source         `json:"sources"`
	Parts

	Took     compile.Took  `json:"-"` // by pass of the compiler
	Spent    observe.Spent `json:"-"` // of the budget
	OddTimes []string      `json:"-"` // a finding for each input whose first event times look wrong
	Asked    []Asked       `json:"-"` // of Options.DryRun
}

// Parts is what parts of a pipeline have done, and how they stand.
type Parts struct {
	Scored    []Scored        `json:"scored,omitempty"`
	Endpoints []Endpoint      `json:"endpoints,omitempty"`
	Lookups   []Lookup        `json:"lookups,omitempty"`
	Fetched   *fetch.Stats    `json:"fetched,omitempty"` // nil without fetches
	Schemas   *SchemaStats    `json:"schemas,omitempty"` // of a schema registry; nil without
	Groups    []Group         `json:"groups,omitempty"`
	Joins     []Join          `json:"joins,omitempty"`
	Order     *Order          `json:"order,omitempty"` // nil if the topic is read in its own order
	Sinks     []Sink          `json:"sinks,omitempty"`
	Journal   []journal.Count `json:"journal,omitempty"` // since the pipeline began
}

// SchemaStats counts what a schema registry was asked.
type SchemaStats = compile.SchemaStats

// Times are quantiles of times in seconds.
type Times struct {
	Events    uint64            `json:"events,omitempty"`
	P50       float64           `json:"p50_seconds"`
	P99       float64           `json:"p99_seconds"`
	Histogram *observe.Snapshot `json:"-"` // nil after it was sent as JSON
}

// Case is what events took that went through a case of a route.
type Case struct {
	Case string `json:"case"`
	Times
	Limit  float64 `json:"limit_seconds,omitempty"` // which 99 of 100 of its events are to keep; 0 is that of the pipeline's budget
	Missed uint64  `json:"missed,omitempty"`        // events that took longer than the limit
}

// Source says how a source stands at a bounded queue of a pipeline.
type Source struct {
	Pipeline         string  `json:"pipeline"`
	Topic            string  `json:"topic"`
	Queue            string  `json:"queue"` // async, for which the topic is not read, or backlog, for which records of it are refused
	State            string  `json:"state"` // full-rate, throttled, or model-down: nothing is read until it works again
	Waiting          int     `json:"waiting"`
	Max              int     `json:"max"`
	High             int     `json:"high"`
	Low              int     `json:"low"`
	Switches         int     `json:"switches"`          // between the states, from the start on
	ThrottledSeconds float64 `json:"throttled_seconds"` // from the start on
	Refused          uint64  `json:"refused,omitempty"` // requests
}

// NewSource returns how a source stands at a gate.
func NewSource(pipeline, topic, queue string, marks control.GateOptions, is control.GateState) Source {
	return Source{
		Pipeline: pipeline, Topic: topic, Queue: queue, State: is.String(), Waiting: is.Depth, Max: marks.Max, High: marks.High, Low: marks.Low,
		Switches: is.Switches, ThrottledSeconds: is.Paused.Seconds(),
	}
}

// Scored is what came of the rows that a model was asked for, wherever it is
// computed.
type Scored struct {
	Model   string `json:"model"`   // name@version
	Rows    uint64 `json:"rows"`    // asked for; again counts again
	Refused uint64 `json:"refused"` // of these, those over which it failed, and not over others
	Faults  uint64 `json:"faults"`  // of these, those over which it failed whatever they were, or did not answer
}

// Endpoint is how the service stands that a model is called at. Pipelines may share it.
type Endpoint struct {
	Model   string `json:"model"`   // name@version
	State   string `json:"state"`   // of its breaker: closed, open or half-open
	Calls   uint64 `json:"calls"`   // of which the answer or fault is known
	Faults  uint64 `json:"faults"`  // of these
	Running int    `json:"running"` // calls
	Limit   int    `json:"limit"`   // of them

	LimitDecreases    uint64 `json:"limit_decreases"`
	BreakerOpened     uint64 `json:"breaker_opened"`
	ReadyChecks       uint64 `json:"ready_checks"`
	ReadyChecksFailed uint64 `json:"ready_checks_failed"`
}

// Lookup is what the lookups of a name found outside of the log.
type Lookup struct {
	Lookup string `json:"lookup"`
	lookups.Stats
}

// Group is how the groups of a step stand.
type Group struct {
	Group      string            `json:"group"`
	Open       int64             `json:"open"`
	Bytes      int64             `json:"bytes"` // of the events of those that are open, in the state
	Duplicates uint64            `json:"duplicates"`
	Late       uint64            `json:"late"`
	Ended      map[string]uint64 `json:"ended"` // by the reason: complete, idle, timeout, full, window
}

// Join is how the join of a pipeline stands.
type Join struct {
	Join      string `json:"join"`
	Rows      int64  `json:"rows"`      // events that wait for others of their pairs
	Bytes     int64  `json:"bytes"`     // of these, in the state
	Matched   uint64 `json:"matched"`   // lefts that went on with a right, or pairs
	Unmatched uint64 `json:"unmatched"` // lefts without a right, which went on or were dropped
	Unclaimed uint64 `json:"unclaimed"` // rights that no left took
	Unkept    uint64 `json:"unkept"`    // rights that a left took, without room to wait for others
}

// Sink is what a sink did.
type Sink struct {
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

	Foreign  uint64 `json:"foreign"` // dead letters of records whose key the service had from another partition
	Rejoined uint64 `json:"members_rejoined"`
	Pauses   uint64 `json:"pauses"`
	Running  int64  `json:"running"` // calls
	Call     Times  `json:"call"`    // time of the calls
}

func timesOf(s *observe.Snapshot) Times {
	return Times{s.Count, s.Quantile(0.5).Seconds(), s.Quantile(0.99).Seconds(), s}
}

// Snapshot returns what the pipeline does. It may be called at any time. It adds up
// histograms: a loop that waits reads Counts.
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

// memory returns what the pipeline and its stages keep in memory. Repartitioners keep nothing.
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

// asyncSource says how the reading of the input stands: throttled while as many events wait
// off the loop as Queue.High says, in one member at least. How long it was paused is that
// of the member that was for longest.
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

// scored adds up what came of the rows of each model, by its name.
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

// found adds up what lookups outside of the log did, by name: cases of a route may share one.
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
