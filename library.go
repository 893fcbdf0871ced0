package afterbay

import (
	"context"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// What runs pipelines.
type (
	Options     = pipeline.Options
	Runner      = pipeline.Runner
	NamedModel  = compile.NamedModel
	GroupStats  = pipeline.GroupStats
	LookupStats = pipeline.LookupStats
	Read        = pipeline.Read
	Ending      = compile.Ending
	Asked       = pipeline.Asked
)

// New checks a pipeline and loads its models. What is wrong with it is returned
// as Errors, all at once.
func New(p Pipeline, o Options) (*Runner, error) { return pipeline.New(p, withKinds(o)) }

// NewChain is New for pipelines that run together: it also checks what is
// between them, and returns their runners upstream first.
func NewChain(pipelines []Pipeline, o Options) ([]*Runner, error) {
	return pipeline.NewChain(pipelines, withKinds(o))
}

// Run checks the pipelines and runs them and their sinks on log until ctx is done.
func Run(ctx context.Context, log stream.Log, pipelines ...Pipeline) error {
	return pipeline.Run(ctx, log, withKinds(Options{}), pipelines...)
}

func withKinds(o Options) Options {
	if o.ModelKinds == nil {
		o.ModelKinds = builtin.Kinds().Models
	}
	return o
}

// What pipelines that run together need of each other.
var (
	Chain        = pipeline.Chain
	Arrivals     = pipeline.Arrivals
	CreateTopics = pipeline.CreateTopics
	RunChain     = pipeline.RunChain
	Outgrown     = pipeline.Outgrown
	Ended        = compile.Ended
	ErrStopped   = pipeline.ErrStopped
)

// Defaults.
const (
	DefaultPartitions  = compile.DefaultPartitions
	DefaultMaxBytes    = compile.DefaultMaxBytes
	DefaultMaxAhead    = compile.DefaultMaxAhead
	DefaultKeep        = compile.DefaultKeep
	DefaultGroupEvents = compile.DefaultGroupEvents
	DefaultGroupBytes  = compile.DefaultGroupBytes
	DefaultGroups      = compile.DefaultGroups
)

// What a pipeline file says, in Go. The package of its tables explains each field.
type (
	Pipeline     = lang.Pipeline
	Code         = lang.Code
	Delivery     = lang.Delivery
	Input        = lang.Input
	Backlog      = lang.Backlog
	Dedupe       = lang.Dedupe
	EventTime    = lang.EventTime
	Field        = lang.Field
	Commit       = lang.Commit
	Budget       = lang.Budget
	Lag          = lang.Lag
	Queue        = lang.Queue
	Priority     = lang.Priority
	Tenant       = lang.Tenant
	DeadLetters  = lang.DeadLetters
	Sink         = lang.Sink
	Header       = spec.Header
	Engine       = lang.Engine
	Model        = lang.Model
	Journal      = lang.Journal
	Calling      = lang.Calling
	Backoff      = lang.Backoff
	Breaker      = lang.Breaker
	Step         = lang.Step
	Group        = lang.Group
	GroupMax     = lang.GroupMax
	Case         = lang.Case
	Call         = lang.Call
	Fetch        = lang.Fetch
	Content      = lang.Content
	ObjectStore  = spec.ObjectStore
	ContentCache = lang.ContentCache
	Lookup       = lang.Lookup
	RowCache     = lang.RowCache
	RowBatch     = lang.RowBatch
	Binding      = lang.Binding
	Feature      = lang.Feature
	Let          = lang.Let
	Decide       = lang.Decide
	Features     = lang.Features
	Route        = lang.Route
	Score        = lang.Score
	Partial      = lang.Partial
	Batch        = lang.Batch
	Emit         = lang.Emit

	Share    = spec.Share
	Constant = spec.Constant

	Error  = spec.Problem
	Errors = spec.Problems
)

// The delivery modes. The embedded log commits outputs, state and offsets in
// one frame, so there each of them is exactly-once.
const (
	ExactlyOnce = lang.ExactlyOnce
	AtLeastOnce = lang.AtLeastOnce
	AtMostOnce  = lang.AtMostOnce
)
