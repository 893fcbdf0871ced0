package pipeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task"
)

// Order is the state of events that are read from several source partitions in one order.
type Order struct {
	Pipeline   string           `json:"pipeline"`
	Order      string           `json:"order"` // time or arrival; with arrival no event waits
	Held       int              `json:"held"`  // number of events that were read and wait for their turn
	Forced     uint64           `json:"forced"`
	Late       uint64           `json:"late"`
	Sources    []OrderSource    `json:"sources"`
	Stages     []OrderStage     `json:"stages,omitempty"`
	Partitions []OrderPartition `json:"partitions"` // partitions that this process reads
}

// OrderSource says how far a source partition is.
type OrderSource struct {
	Source   string     `json:"source"`             // topic/partition
	Frontier *time.Time `json:"frontier,omitempty"` // no later event has an earlier turn, as far as this process has read; nil before the first mark
	Idle     float64    `json:"idle_seconds"`       // time without an event after which others do not wait for it; 0 is never
	Holds    int        `json:"holds"`              // number of events that wait for it
	For      float64    `json:"holds_seconds"`      // how long they have waited
	Waited   float64    `json:"waited_seconds"`     // total waiting time of events since the process began, summed over all partitions
	Copied   Copied     `json:"copied"`

	topic  string
	number int32
}

// OrderStage says how long events waited for the answers of a stage.
type OrderStage struct {
	Stage  string  `json:"stage"`          // its topic
	Waited float64 `json:"waited_seconds"` // since the process began, summed over all partitions
}

// Copied says how far a source partition is copied. This is only in the log, so the server that
// reads the log adds it.
type Copied struct {
	Next    int64   `json:"next"`            // offset of the next record
	Records int64   `json:"records"`         // number of records that are not copied
	Seconds float64 `json:"seconds"`         // time since the oldest of these was appended
	Error   string  `json:"error,omitempty"` // why the values are unknown
}

// OrderPartition says how a partition of the repartition topic or of a stage is read in order.
type OrderPartition struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Held      int        `json:"held"`                // held events in memory
	Spilled   bool       `json:"spilled,omitempty"`   // more held events are in the state, because memory has no room for them
	Open      int        `json:"-"`                   // events that were read and are in no transaction, including held events
	Read      int64      `json:"-"`                   // offset after the last record that was read
	First     *time.Time `json:"first,omitempty"`     // turn of the first held event; nil if no event is held
	WaitsFor  string     `json:"waits_for,omitempty"` // topic/partition of a source, or the topic of a stage
	Seconds   float64    `json:"waits_seconds"`       // how long it has waited for that
}

// Order returns the state of events that are read in one order. It returns nil if the topic is read
// in its own order.
func (r *Runner) Order(now time.Time) *Order {
	if r.Plan.Sources == nil {
		return nil
	}
	counts := r.Counts()
	o := &Order{Pipeline: r.Name(), Order: "time", Forced: counts.Forced, Late: counts.Late, Sources: []OrderSource{}, Partitions: []OrderPartition{}}
	if r.Plan.Arrival {
		o.Order = "arrival"
	}
	waited := map[string]time.Duration{}
	frontiers := map[int32]order.Key{}
	for _, t := range r.ordered() {
		for of, took := range t.Readers().Waited() {
			waited[t.Holder(of)] += took
		}
		for _, s := range t.Readers().Standing() {
			p := orderPartition(&s, t.Holder(s.Waits), now)
			o.Held += p.Held
			o.Partitions = append(o.Partitions, p)
			for number, k := range s.Frontiers {
				if least, known := frontiers[number]; !known || k.Before(least) {
					frontiers[number] = k
				}
			}
		}
	}
	for number, k := range frontiers {
		o.Sources = append(o.Sources, r.orderSource(o, number, k, waited))
	}
	for _, stage := range r.Asked {
		o.Stages = append(o.Stages, OrderStage{stage.Topic, waited[stage.Topic].Seconds()})
	}
	slices.SortFunc(o.Sources, func(a, b OrderSource) int { return cmp.Compare(a.Source, b.Source) })
	return o
}

// ordered returns the tasks that read in order.
func (r *Runner) ordered() (list []*task.Task) {
	for _, t := range r.tasks {
		if t.Ordered() {
			list = append(list, t)
		}
	}
	return list
}

func orderPartition(s *order.Standing, waitsFor string, now time.Time) OrderPartition {
	p := OrderPartition{Topic: s.Topic, Partition: s.Index, Held: s.Held, Spilled: s.Spilled, Open: s.Open, Read: int64(s.Read), WaitsFor: waitsFor}
	if waitsFor != "" {
		first := time.UnixMicro(s.First.Time).UTC()
		p.First, p.Seconds = &first, max(0, now.Sub(s.Since).Seconds())
	}
	return p
}

func (r *Runner) orderSource(o *Order, number int32, frontier order.Key, waited map[string]time.Duration) OrderSource {
	s := OrderSource{Source: r.Plan.SourceName(number), Idle: r.copier(number).Copy.Idle.Seconds(), topic: r.copier(number).Topic, number: number}
	s.Waited = waited[s.Source].Seconds()
	if frontier != order.First && frontier.Time != order.NoMark.Silent {
		at := time.UnixMicro(frontier.Time).UTC()
		s.Frontier = &at
	}
	for _, p := range o.Partitions {
		if p.WaitsFor == s.Source {
			s.Holds, s.For = s.Holds+p.Held, max(s.For, p.Seconds)
		}
	}
	return s
}

// copier returns the plan of the repartitioner that copies a source partition.
func (r *Runner) copier(number int32) *task.Plan {
	return r.Copies[slices.IndexFunc(r.Copies, func(p *task.Plan) bool { return p.Copy.Rank == order.Topic(number) })]
}

// Add sets how far the partitions of a topic are copied, or why that is unknown.
func (o *Order) Add(topic string, lags []observe.Lag, err error) {
	for i := range o.Sources {
		s := &o.Sources[i]
		if err != nil && s.topic == topic {
			s.Copied.Error = err.Error()
		}
		for _, l := range lags {
			if s.Source == l.Name() {
				s.Copied = Copied{Next: int64(l.Committed), Records: l.Records, Seconds: l.Seconds}
			}
		}
	}
}

// WaitsFor returns what events wait for, and how long. That is a source partition, or else a stage.
// The name is "" if no event waits.
func (o *Order) WaitsFor() (name string, seconds float64) {
	if s := o.Holder(); s != nil {
		return s.Source, s.For
	}
	p := o.Stage()
	switch {
	case p == nil:
		return "", 0
	case o.IsStage(p.Topic): // the pipeline has not returned the values to count yet
		return p.Topic, p.Seconds
	}
	return p.WaitsFor, p.Seconds
}

// IsStage reports whether a topic belongs to a stage.
func (o *Order) IsStage(topic string) bool {
	return slices.ContainsFunc(o.Stages, func(s OrderStage) bool { return s.Stage == topic })
}

// Stage returns the partition with the earliest turn of an event, if that event waits for a stage.
// Otherwise it returns nil.
func (o *Order) Stage() *OrderPartition {
	if p := o.first(); p != nil && o.source(p.WaitsFor) == nil {
		return p
	}
	return nil
}

// Holder returns the source that the event with the earliest turn waits for, or nil if it does not
// wait for a source.
func (o *Order) Holder() *OrderSource {
	if p := o.first(); p != nil {
		return o.source(p.WaitsFor)
	}
	return nil
}

// first returns the partition with the waiting event of the earliest turn. All other events depend
// on it, or will. If several partitions have that turn, first prefers one that waits for a source.
// It returns nil if no event waits.
func (o *Order) first() (least *OrderPartition) {
	for i := range o.Partitions {
		p := &o.Partitions[i]
		if p.WaitsFor == "" {
			continue
		}
		if least == nil || p.First.Before(*least.First) || p.First.Equal(*least.First) && o.source(p.WaitsFor) != nil {
			least = p
		}
	}
	return least
}
