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

// Plan is a pipeline made ready to run: names resolved to slots, expressions
// to programs. NewPlan makes it. It does not change, and tasks share it.
type Plan struct {
	Name      string // the consumer group
	DeadTopic string // where dead letters go
	Schema    *value.Schema
	Input
	Keys

	// Stages in order of execution. Those before Waves run record by record in
	// log order; the others wave by wave, each wave with a key at most once
	// where Feedback is set, and all at once where it is not.
	Stages   []operator.Placed
	Cases    *operator.Route // whose cases are measured apart; nil is none
	Waves    int
	Feedback bool

	Async
	Groups  group.Plan
	Joins   join.Plan
	Tables  []table.Spec
	Outputs []string // topics the emits write, by EmitStage.Output
	Ends    output.Ends
	Models  []string // name@version and digest of each model, for provenance

	Fingerprint generation.Fingerprint

	Calls  []*operator.Call // in order
	Shared []*batch.Shared  // models whose calls members share

	derived
}

// Input is what a pipeline reads, and how.
type Input struct {
	Topic    string
	Fields   []decode.Field
	Format   decode.Format // nil is JSON
	Envelope envelope.Kind
	MaxBytes int // of a value

	Key    value.Slot
	Time   operator.Timing
	Meta   operator.Meta
	Dedupe *DedupePlan // nil takes every event

	// Copy makes a plan of one that copies its events to the topic of another,
	// whose Sources are the topics copied: repartition.go. Such a plan has no stages.
	Copy    *CopyPlan
	Sources []Source
	Slack   time.Duration // how much earlier an event of Sources can be than its place in the order, and not late
	Staged
	Arrival bool // events of Sources have their turn as they stand in Topic
}

// Keys is what a pipeline keeps of keys.
type Keys struct {
	// Early features are computed in log order before the waves; Late ones,
	// read or written in the waves, know past predictions of their key.
	Early, Late *feature.Set
	Retention   time.Duration // silence after which a key's windows end
	Keep        time.Duration // silence after which a key is forgotten
}

// Async is about the async queue.
type Async struct {
	// Ordered queues the events of a key behind one of it that is queued. Feedback
	// is then set. Queue bounds the events that may be queued in this process.
	Ordered  bool
	Queue    control.GateOptions
	Fairness operator.Fairness
	Journal  *journal.Spec
}

// derived is what NewPlan derives.
type derived struct {
	writers []operator.Operator // emits, calls and each, in order; others write nothing
	models  []byte              // value of header.Models; nil without models
	keys    keyed.Plan          // of Keys and Calls
	remote  bool                // a model is
	queues  bool                // a score may
	closes  bool                // there are groups, timers or a join
	groups  []int               // where each group stands among the stages, from 1
	join    int                 // likewise the join; 0 is none
	notes   string              // topic of notes about the order; "" is none

	resumption *resumption
}

// NewPlan returns a plan with the fields of p, the places of the stages, the fingerprint of
// their order, and what else the loop derives from them. It does not change p.
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

// InTurns reports whether events of several source partitions are read in the order of their times.
func (p *Plan) InTurns() bool { return p.Sources != nil && !p.Arrival }

// Queues reports whether events may be queued: done with after their offset was committed.
func (p *Plan) Queues() bool { return p.queues }

// Notes returns the topic of the notes about the order of the pipeline's events; "" if it
// writes none.
func (p *Plan) Notes() string { return p.notes }

// OfElements reports whether a slot is one that the elements of a list have, and events do not.
func (p *Plan) OfElements(slot value.Slot) bool {
	return slices.ContainsFunc(p.Stages, func(s operator.Placed) bool {
		x, ok := s.Operator.(interface{ Has(slot value.Slot) bool })
		return ok && x.Has(slot)
	})
}

// Stateless reports that nothing is kept by key.
func (p *Plan) Stateless() bool { return p.keys.Featureless() && !p.keys.Keyed && !p.Ordered }

// repeatable reports whether events that are computed again have the same outputs,
// so that these may be seen before they are committed: a service may answer
// otherwise, a table have newer rows. A copy counts as an event. Answers and returns are waited
// for, so none of them may be missing.
func (p *Plan) repeatable() bool {
	return p.Copy == nil && p.Answers == nil && len(p.Returns) == 0 && !p.remote && !p.queues && len(p.Tables) == 0
}

// order is the text of what the events of the async queue are stored by: the steps in
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

// form is what the pipeline's records have in common.
func (p *Plan) form(maxBytes int) *output.Form {
	pipeline, _, _ := strings.Cut(p.Name, ".") // in whose name a copier works
	form := &output.Form{
		Pipeline: pipeline, Topics: p.Outputs, DeadTopic: p.DeadTopic, Ends: p.Ends, Ordered: p.Sources != nil, DeadByKey: p.Copy != nil,
		Schema: p.Schema, ID: p.Meta.ID, Models: p.models, MaxBytes: maxBytes, Headers: p.readsHeaders(),
	}
	if p.Time.Late == operator.LateTopic {
		form.LateTopic = p.Outputs[p.Time.LateOutput]
	}
	return form
}

// readsHeaders reports whether events are decoded, or expressions evaluated, by headers of records.
func (p *Plan) readsHeaders() bool {
	return len(p.Meta.Headers) > 0 || p.Envelope == envelope.CloudEvents || slices.ContainsFunc(p.Sources, func(s Source) bool { return s.Envelope == envelope.CloudEvents })
}

// Topics lists the topics that the pipeline writes, dead letters last.
func (p *Plan) Topics() []string {
	return append(slices.Clone(p.Outputs), p.DeadTopic)
}

// DedupePlan drops events that were seen before.
type DedupePlan struct {
	Slot value.Slot // the id
	Spec dedupe.Spec
}

// CopyPlan says how events are copied.
type CopyPlan struct {
	Partitions int32
	Group      string        // of the pipeline that reads the copies
	Rank       int           // of the source among the pipeline's, in the order of names
	Wait       time.Duration // for events that are out of order in their source partition
	Asks       []Ask
	Stages     []string      // topics of asks
	Late       bool          // stages are asked for late events too
	Idle       time.Duration // without an event, after which the others do not wait for a source partition; 0 is never
}

// keyPath returns where the key stands in records, as the file writes it.
func (in *Input) keyPath() string {
	for i := range in.Fields {
		if f := &in.Fields[i]; f.Slot == in.Key {
			return f.At()
		}
	}
	return in.Key.Name
}

// rules say how events are placed.
func (p *Plan) rules() order.Rules {
	return order.Rules{Lateness: p.Time.Lateness.Microseconds(), Wait: p.Copy.Wait.Microseconds()}
}

// Source is a topic whose events come as copies, and what is read of them.
type Source struct {
	Topic    string
	Rank     int // among the pipeline's sources, in the order of names
	Lateness time.Duration
	Fields   []decode.Field
	Format   decode.Format // nil is JSON
	Envelope envelope.Kind
}

// Numbers returns the numbers of all source partitions. partitions says how many each source
// has.
func (p *Plan) Numbers(partitions []int32) (list []int32) {
	for i, s := range p.Sources {
		for index := range partitions[i] {
			list = append(list, order.Number(s.Rank, index))
		}
	}
	return list
}

// fields returns the fields of events of a source.
func (p *Plan) fields(source int) []decode.Field {
	if p.Sources != nil {
		return p.Sources[source].Fields
	}
	return p.Fields
}

// source returns the place in Sources of the topic that a copy is from, by its header Source.
func (p *Plan) source(position deadletter.Position) (int, error) {
	for i := range p.Sources {
		if p.Sources[i].Topic == position.Topic {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s is not one of the pipeline's inputs", position.Topic)
}
