package task

import (
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/model"
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

	Key  value.Slot
	Time TimePlan
	Meta MetaSlots

	// Early features are computed in log order before the waves; Late ones,
	// read or written in the waves, know past predictions of their key.
	Early, Late *feature.Set
	Retention   time.Duration // silence after which a key's windows end
	Keep        time.Duration // silence after which a key is forgotten

	// Stages in order of execution. Those before Waves run record by record in
	// log order; the others wave by wave, each wave with a key at most once
	// where Feedback is set, and all at once where it is not.
	Stages   []Stage
	Waves    int
	Feedback bool

	Outputs []string // topics the emits write, by EmitStage.Output
	Models  []string // name@version and digest of each model, for provenance
	Digest  string   // of the pipeline's meaning: what raises the generation
	Cells   string   // of the meaning of stored state: what cannot be carried over

	emits   []*EmitStage // in order
	models  []byte       // value of HeaderModels; nil without models
	columns int          // most columns of a feature
}

// Prepare derives what the loop needs from the fields set, and must be called
// before the plan is used.
func (p *Plan) Prepare() {
	for i := range p.Stages {
		if e := p.Stages[i].Emit; e != nil {
			p.emits = append(p.emits, e)
		}
		if f := p.Stages[i].Feature; f != nil {
			p.columns = max(p.columns, len(f.Columns))
		}
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
	FromField bool
	Slot      value.Slot
	Unit      time.Duration // of an int field; 0 for a field of kind time
	Lateness  time.Duration
	MaxAhead  time.Duration
	Late      LatePolicy
}

// LatePolicy is what becomes of an event before the watermark.
type LatePolicy uint8

// The policies of `late`.
const (
	LateDead    LatePolicy = iota // a dead letter
	LateDrop                      // left out, and counted
	LateInclude                   // as if it were on time
)

// MetaSlots are the names meta.*.
type MetaSlots struct{ ID, Key, Time, Partition, Offset value.Slot }

// Stage is one thing done to each record; exactly one field is set.
type Stage struct {
	Name    string // of dead letters: "let", "features", "score", "decide", "emit"
	Assign  []Assign
	Feature *FeatureStage
	Score   *ScoreStage
	Emit    *EmitStage
}

// Assign stores the value of an expression in a slot.
type Assign struct {
	Slot    value.Slot
	Program *expression.Program
}

// FeatureStage reads a feature into its columns, folds a value into it, or
// both.
type FeatureStage struct {
	Late      bool // which of the plan's sets
	Index     int  // in the set
	Read      bool
	Add       bool
	ReadFirst bool                // read before adding: elapsed
	Value     *expression.Program // nil counts events
	When      *expression.Program // of the addition; nil is always
	Columns   []value.Slot
}

// set returns the index of the stage's set in Plan.sets and in a key's cells.
func (f *FeatureStage) set() int {
	if f.Late {
		return 1
	}
	return 0
}

// ScoreStage calls a model.
type ScoreStage struct {
	Model    model.Model
	Name     string // name@version
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Fallback []*expression.Program // by output; nil where there is none
	Size     int                   // most rows of a call
}

// EmitStage writes an output record. What can fail about it is computed at its
// place, into slots; the record itself is made in position order.
type EmitStage struct {
	Index   int // among the pipeline's emits: part of the default id
	Output  int // in Plan.Outputs
	When    *expression.Program
	ID      *value.Slot // nil for the default
	Key     *value.Slot // nil for the input's key and partition
	Compute []Assign    // the values and the id
	Names   [][]byte    // `"name":` of each value
	Values  []value.Slot
}
