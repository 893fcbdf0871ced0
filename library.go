package afterbay

import (
	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

// Defaults.
const (
	DefaultPartitions = compile.DefaultPartitions
	DefaultMaxAhead   = lang.DefaultMaxAhead
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
