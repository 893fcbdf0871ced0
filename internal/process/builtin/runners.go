package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// New is pipeline.New with the built-in kinds of models.
func New(p lang.Pipeline, o pipeline.Options) (*pipeline.Runner, error) {
	return pipeline.New(p, withKinds(o))
}

// NewChain is pipeline.NewChain with the built-in kinds of models.
func NewChain(pipelines []lang.Pipeline, o pipeline.Options) ([]*pipeline.Runner, error) {
	return pipeline.NewChain(pipelines, withKinds(o))
}

// Run is pipeline.Run with the built-in kinds of models.
func Run(ctx context.Context, log stream.Log, pipelines ...lang.Pipeline) error {
	return pipeline.Run(ctx, log, withKinds(pipeline.Options{}), pipelines...)
}

func withKinds(o pipeline.Options) pipeline.Options {
	if o.ModelKinds == nil {
		o.ModelKinds = Kinds().Models
	}
	return o
}

// KindsWith returns the built-in kinds, the kinds of code, and a log with the URL memory: that is
// lost when it is closed.
func KindsWith(code lang.Code) (lang.Kinds, error) {
	kinds := Kinds()
	kinds.Logs = append(kinds.Logs, memory.Kind)
	return kinds.With(code)
}

// OpenLog opens the log of a URL. Its kind may be one of code.
func OpenLog(ctx context.Context, url string, code lang.Code, p stream.Process) (stream.Engine, error) {
	kinds, err := KindsWith(code)
	if err != nil {
		return nil, err
	}
	engine, found := kinds.Engine(url)
	if len(found) > 0 {
		return nil, fmt.Errorf("open log: %w", found)
	}
	log, err := engine.Config.Open(ctx, p)
	if err == nil && log == nil {
		err = errors.New("it opened nothing")
	}
	if found := lang.EngineProblems(err); found != nil {
		err = found
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return log, nil
}
