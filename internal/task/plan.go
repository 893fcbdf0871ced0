package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/keyed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/internal/task/table"
)

// Plan is a pipeline ready to run: names are resolved to slots, expressions to programs. NewPlan
// makes it. A Plan is immutable, and tasks share it.
type Plan struct {
	Name      string // the consumer group
	DeadTopic string // topic of dead letters
	Schema    *value.Schema
	Input
	Keys

	// Stages holds the operators in order of execution. Those before Waves run record by record in
	// log order. The others run in waves. If Feedback is set, each wave has at most one event of
	// each key. Otherwise one wave has all events.
	Stages   []operator.Placed
	Cases    *operator.Route // the cases of this route are measured separately; nil if no route is
	Waves    int
	Feedback bool

	Async
	Groups  group.Plan
	Joins   join.Plan
	Tables  []table.Spec
	Outputs []string // topics that the emits write, by Emit.Output
	Ends    output.Ends
	Models  []string // name@version and digest of each model, for provenance

	Fingerprint generation.Fingerprint

	Calls  []*operator.Call // in order
	Shared []*batch.Shared  // members share the calls of these models

	derived
}

// Input says what a pipeline reads, and how.
type Input struct {
	Topic    string
	Fields   []decode.Field
	Format   decode.Format // nil is JSON
	Envelope envelope.Kind
	MaxBytes int // most bytes of a value

	Key    value.Slot
	Time   operator.Timing
	Meta   operator.Meta
	Dedupe *DedupePlan // nil disables deduplication

	// Copy makes this the plan of a repartitioner. It copies its events to the topic of another
	// plan, which lists the copied topics in Sources: repartition.go. A plan with Copy has no
	// stages.
	Copy    *CopyPlan
	Sources []Source
	Slack   time.Duration // how far an event of Sources can be before its place in the order without being late
	Staged
	Arrival bool // events of Sources are released in the order of Topic
}

// Keys describes the keyed state of a pipeline.
type Keys struct {
	// Early features are computed in log order, before the waves. Late features are read or written
	// in the waves and can use past predictions of their key.
	Early, Late *feature.Set
	Retention   time.Duration // silence after which the windows of a key end
	Keep        time.Duration // silence after which a key is removed
}

// Async configures the async queue.
type Async struct {
	// Ordered queues each event that follows a queued event of its key. It requires Feedback. Queue
	// bounds the events that may be queued in this process.
	Ordered  bool
	Queue    control.GateOptions
	Fairness operator.Fairness
	Journal  *journal.Spec
}

// derived holds the fields that NewPlan derives.
type derived struct {
	writers []operator.Operator // operators that write records: emits, calls and each, in order
	models  []byte              // value of header.Models; nil without models
	keys    keyed.Plan          // from Keys and Calls
	remote  bool                // a model is remote
	queues  bool                // a score may queue events
	closes  bool                // there are groups, timers or a join
	groups  []int               // number of each group among the operators, from 1
	join    int                 // number of the join among the operators, from 1; 0 without a join
	notes   string              // topic of notes about the order; "" if the pipeline writes no notes

	resumption *resumption
}

// NewPlan returns a plan with the fields of p. It adds the places of the operators, the fingerprint
// of their order, and the other derived fields. It does not change p.
func NewPlan(p Plan) *Plan {
	p.derived = derived{keys: keyed.Plan{
		Terms: keyed.Terms{Sets: [2]*feature.Set{p.Early, p.Late}, Retention: p.Retention, Keep: p.Keep}, Calls: p.Calls,
	}, groups: make([]int, len(p.Groups.Groups))}
	p.Stages = slices.Clone(p.Stages)
	for i := range p.Stages {
		p.Stages[i].At = i + 1
		switch op := p.Stages[i].Operator.(type) {
		case *operator.Emit, *operator.Call, *operator.Each:
			p.writers = append(p.writers, op)
		case *operator.Group:
			p.groups[op.Index] = i + 1
		case *operator.Join:
			p.join = i + 1
		case operator.Batched:
			how := op.How()
			p.remote = p.remote || how.Model.Info().Remote
			p.queues = p.queues || how.Calling != nil
			if scored, ok := op.(*operator.Scored); ok {
				p.writers = append(p.writers, scored.Each)
			}
			for f := range how.OnFailure {
				p.writers = append(p.writers, how.OnFailure[f].Operator)
			}
		}
	}
	for _, c := range p.Calls {
		p.keys.Keyed = p.keys.Keyed || c.Function.Keyed
	}
	if p.Answers != nil {
		answers := *p.Answers
		answers.names = operator.NamesOf(answers.Columns)
		p.Answers = &answers
	}
	if slices.ContainsFunc(p.Tables, func(t table.Spec) bool { return !t.Versions.Kept() }) {
		p.notes = naming.Of(p.Name, naming.Order)
	}
	p.closes = p.keys.Keyed || len(p.groups) > 0 || p.join > 0
	p.resumption = newResumption(p.Stages, p.Schema)
	p.Fingerprint.Order = generation.Hash(p.order())
	if len(p.Models) > 0 {
		p.models = []byte(strings.Join(p.Models, ", "))
	}
	return &p
}

// InTurns reports whether the pipeline reads events of several source partitions in the order of
// their times.
func (p *Plan) InTurns() bool { return p.Sources != nil && !p.Arrival }

// Queues reports whether events may be queued. A queued event is finished after its offset was
// committed.
func (p *Plan) Queues() bool { return p.queues }

// Notes returns the topic of the notes about the order of the pipeline's events. It returns "" if
// the pipeline writes none.
func (p *Plan) Notes() string { return p.notes }

// OfElements reports whether a slot belongs to the elements of a list, not to events.
func (p *Plan) OfElements(slot value.Slot) bool {
	return slices.ContainsFunc(p.Stages, func(s operator.Placed) bool {
		x, ok := s.Operator.(interface{ Has(slot value.Slot) bool })
		return ok && x.Has(slot)
	})
}

// Stateless reports whether the pipeline has no keyed state.
func (p *Plan) Stateless() bool { return p.keys.Featureless() && !p.keys.Keyed && !p.Ordered }

// repeatable reports whether events that are computed again have the same outputs. If so, readers
// may see the outputs before they are committed. A remote service may answer differently, and a
// table may have newer rows. Copies, answers and returns are excluded. A reader counts each copy as
// an event and waits for each answer and return, so none of them may disappear.
func (p *Plan) repeatable() bool {
	return p.Copy == nil && p.Answers == nil && len(p.Returns) == 0 && !p.remote && !p.queues && len(p.Tables) == 0
}

// order returns the text that stored entries of the async queue depend on. It lists the steps in
// their order, with a bar where the waves begin, and the values of a row.
func (p *Plan) order() string {
	var text strings.Builder
	for i, label := range p.resumption.labels {
		if i == p.Waves {
			text.WriteString("| ")
		}
		text.WriteString(label + ", ")
	}
	for _, slot := range p.Schema.Slots {
		fmt.Fprintf(&text, "\n%q %v", slot.Name, slot.Type)
	}
	return text.String()
}

// form returns the properties that all records of the pipeline share.
func (p *Plan) form(maxBytes int) *output.Form {
	pipeline, _, _ := strings.Cut(p.Name, ".") // a repartitioner writes in the name of its pipeline
	form := &output.Form{
		Pipeline: pipeline, Topics: p.Outputs, DeadTopic: p.DeadTopic, Ends: p.Ends, Ordered: p.Sources != nil, DeadByKey: p.Copy != nil,
		Schema: p.Schema, ID: p.Meta.ID, Models: p.models, MaxBytes: maxBytes, Headers: p.readsHeaders(),
	}
	if p.Time.Late == operator.LateTopic {
		form.LateTopic = p.Outputs[p.Time.LateOutput]
	}
	return form
}

// readsHeaders reports whether decoding or expressions use record headers.
func (p *Plan) readsHeaders() bool {
	return len(p.Meta.Headers) > 0 || p.Envelope == envelope.CloudEvents || slices.ContainsFunc(p.Sources, func(s Source) bool { return s.Envelope == envelope.CloudEvents })
}

// Topics lists the topics that the pipeline writes, dead letters last.
func (p *Plan) Topics() []string {
	return append(slices.Clone(p.Outputs), p.DeadTopic)
}

// DedupePlan configures the removal of duplicate events.
type DedupePlan struct {
	Slot value.Slot // the id
	Spec dedupe.Spec
}

// CopyPlan says how events are copied.
type CopyPlan struct {
	Partitions int32
	Group      string        // group of the pipeline that reads the copies
	Rank       int           // index of the source among the pipeline's sources, in the order of names
	Wait       time.Duration // how long to wait for events that are out of order in their source partition
	Asks       []Ask
	Stages     []string      // topics of asks
	Late       bool          // late events are asked about too
	Idle       time.Duration // time without an event after which a source partition is idle, and the others stop waiting for it; 0 is never
}

// keyPath returns the path of the key in records, as the pipeline file writes it.
func (in *Input) keyPath() string {
	for i := range in.Fields {
		if f := &in.Fields[i]; f.Slot == in.Key {
			return f.At()
		}
	}
	return in.Key.Name
}

// rules returns the rules for placing events in the order.
func (p *Plan) rules() order.Rules {
	return order.Rules{Lateness: p.Time.Lateness.Microseconds(), Wait: p.Copy.Wait.Microseconds()}
}

// Source is a copied topic: its events arrive as copies. It says how to read them.
type Source struct {
	Topic    string
	Rank     int // index among the pipeline's sources, in the order of names
	Lateness time.Duration
	Fields   []decode.Field
	Format   decode.Format // nil is JSON
	Envelope envelope.Kind
}

// Numbers returns the numbers of all source partitions. partitions has the number of partitions of
// each source.
func (p *Plan) Numbers(partitions []int32) (list []int32) {
	for i, s := range p.Sources {
		for index := range partitions[i] {
			list = append(list, order.Number(s.Rank, index))
		}
	}
	return list
}

// fields returns the fields of the events of a source.
func (p *Plan) fields(source int) []decode.Field {
	if p.Sources != nil {
		return p.Sources[source].Fields
	}
	return p.Fields
}

// source returns the index in Sources of the topic that a copy was made from. position is the value
// of its header Source.
func (p *Plan) source(position deadletter.Position) (int, error) {
	for i := range p.Sources {
		if p.Sources[i].Topic == position.Topic {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s is not one of the pipeline's inputs", position.Topic)
}
