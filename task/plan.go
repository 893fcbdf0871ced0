package task

import (
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/dedupe"
	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/value"
)

// Plan is a pipeline made ready to run: names resolved to slots, expressions
// to programs. It is read-only and shared by the sessions of a pipeline.
type Plan struct {
	Name      string // the consumer group
	Topic     string // the input
	DeadTopic string // where dead letters go
	Schema    *value.Schema
	Fields    []decode.Field
	MaxBytes  int // of an input value

	Key    value.Slot
	Time   TimePlan
	Meta   MetaSlots
	Dedupe *DedupePlan // nil takes every event

	// Copy makes a plan of one that copies its events to the topic of another,
	// whose Sources are the topics copied: merge.go. Such a plan has no stages.
	Copy    *CopyPlan
	Sources []Source

	// Early features are computed in log order before the waves; Late ones,
	// read or written in the waves, know past predictions of their key.
	Early, Late *feature.Set
	Retention   time.Duration // silence after which a key's windows end
	Keep        time.Duration // silence after which a key is forgotten

	// Stages in order of execution. Those before Waves run record by record in
	// log order; the others wave by wave, each wave with a key at most once
	// where Feedback is set, and all at once where it is not.
	Stages   []step.Stage
	Waves    int
	Feedback bool

	Outputs []string // topics the emits write, by EmitStage.Output
	Models  []string // name@version and digest of each model, for provenance
	Digest  string   // of the pipeline's meaning: what raises the generation
	Cells   string   // of the meaning of stored state: what cannot be carried over

	Calls []*step.Call // in order

	writers []*step.Stage // emits and calls, in order
	keyed   bool          // a call has state and timers
	models  []byte        // value of header.Models; nil without models
	terms   silence.Terms // of Early, Late, Retention and Keep
	remote  bool          // a model is
}

// Prepare derives what the loop needs from the fields set, and must be called
// before the plan is used.
func (p *Plan) Prepare() {
	p.terms = silence.Terms{Sets: p.sets(), Retention: p.Retention, Keep: p.Keep}
	for i := range p.Stages {
		if p.Stages[i].Emit != nil || p.Stages[i].Call != nil {
			p.writers = append(p.writers, &p.Stages[i])
		}
		if s := p.Stages[i].Score; s != nil {
			p.remote = p.remote || s.Model.Info().Remote
		}
	}
	for _, c := range p.Calls {
		p.keyed = p.keyed || c.Function.Keyed
	}
	if len(p.Models) > 0 {
		p.models = []byte(strings.Join(p.Models, ", "))
	}
}

// Topics lists the topics that the pipeline writes, dead letters last.
func (p *Plan) Topics() []string {
	return append(slices.Clone(p.Outputs), p.DeadTopic)
}

// TimePlan says where the event time stands.
type TimePlan struct {
	step.EventTime
	Lateness time.Duration

	Late       LatePolicy
	LateOutput int // in Plan.Outputs, of LateTopic
}

// DedupePlan drops events that were seen before.
type DedupePlan struct {
	Slot value.Slot // the id
	Spec dedupe.Spec
}

// CopyPlan says how events are copied.
type CopyPlan struct{ Partitions int32 }

// Source is a topic whose events come as copies, and what is read of them.
type Source struct {
	Topic      string
	Partitions int32 // set before the task runs
	Fields     []decode.Field
}

// LatePolicy is what becomes of an event before the watermark.
type LatePolicy uint8

// The policies of `late`.
const (
	LateDead    LatePolicy = iota // a dead letter
	LateDrop                      // left out, and counted
	LateInclude                   // as if it were on time
	LateTopic                     // written to a topic as it came
)

// MetaSlots are the names meta.*.
type MetaSlots struct {
	ID, Key, Time, Partition, Offset value.Slot
	Topic                            *value.Slot // the source; nil without Plan.Sources
}

// setOf returns the index of a feature's set in Plan.sets and in a key's cells.
func setOf(f *step.Feature) int {
	if f.Late {
		return 1
	}
	return 0
}
