package generation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// Names is a log on which the name of a pipeline stands for the group of its live generation.
// Pipelines that were never reprocessed are the same as on the log itself.
type Names struct {
	Log // the log itself

	mu   sync.Mutex           // guards live
	live map[string]*Deriving // by pipeline
}

var (
	_ Log              = (*Names)(nil)
	_ stream.KeyTailer = (*Names)(nil)
	_ stream.Restorer  = (*Names)(nil)
	_ stream.Follower  = (*Names)(nil)
	_ stream.Sizer     = (*Names)(nil)
)

// TailKeys implements stream.KeyTailer. If the log does not, TailKeys keeps all records.
func (n *Names) TailKeys(ctx context.Context, p stream.Partition, from stream.Offset, keep func(key []byte) bool) iter.Seq2[stream.Record, error] {
	if log, ok := n.Log.(stream.KeyTailer); ok {
		return log.TailKeys(ctx, p, from, keep)
	}
	return n.Tail(ctx, p, from)
}

// itself returns the log without generation names.
func itself(log Log) Log {
	if n, ok := log.(*Names); ok {
		return n.Log
	}
	return log
}

// Below returns a log on which a pipeline reads as on log, but with wrap applied to the log below
// the generations.
func Below(log stream.Log, pipeline string, wrap func(stream.Log) stream.Log) stream.Log {
	switch l := log.(type) {
	case *Names:
		if d := l.of(pipeline); d != nil {
			return d.below(wrap)
		}
		return wrap(l.Log)
	case *Deriving:
		return l.below(wrap)
	}
	return wrap(log)
}

// Open reads which generations are live.
func Open(ctx context.Context, log Log) (*Names, error) {
	n := &Names{Log: log, live: map[string]*Deriving{}}
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		pipeline, ok := pipelineOf(t.Name)
		if !ok {
			continue
		}
		h, err := Read(ctx, log, pipeline)
		if err != nil {
			return nil, err
		}
		if begun, ok := h.Find(h.Current()); ok {
			n.live[pipeline] = newDeriving(log, pipeline, begun)
		}
	}
	return n, nil
}

// Renew reads again which generation of a pipeline is live.
func (n *Names) Renew(ctx context.Context, pipeline string) error {
	h, err := Read(ctx, n.Log, pipeline)
	if err != nil {
		return err
	}
	if begun, ok := h.Find(h.Current()); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.live[pipeline] = newDeriving(n.Log, pipeline, begun)
	}
	return nil
}

func (n *Names) of(group string) *Deriving {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[group]
}

// Group returns the group that a name stands for.
func (n *Names) Group(name string) string {
	if d := n.of(name); d != nil {
		return d.group()
	}
	return name
}

// Check rejects a pipeline with the fingerprint of the generation before the live one.
func (n *Names) Check(pipeline, digest string) error {
	if d := n.of(pipeline); d != nil && digest == d.begun.Was && digest != d.begun.Fingerprint {
		return &ErrOlder{pipeline, d.begun}
	}
	return nil
}

// ErrOlder means that a pipeline's file is the one from before it was reprocessed.
type ErrOlder struct {
	Pipeline string
	Begun    Begun // the live generation
}

// Error says what to do next.
func (e *ErrOlder) Error() string {
	return fmt.Sprintf("pipeline %q was reprocessed and handed over to generation %d (%v): run the file of that generation; or reprocess with this file to make it the next generation", e.Pipeline, e.Begun.Generation, e.Begun.Models)
}

// Join implements stream.Log.
func (n *Names) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if d := n.of(group); d != nil {
		return d.Join(ctx, group, topics...)
	}
	return n.Log.Join(ctx, group, topics...)
}

// Committed implements stream.Inspector.
func (n *Names) Committed(ctx context.Context, group string, p stream.Partition) (stream.Offset, error) {
	return n.Log.Committed(ctx, n.Group(group), p)
}

// State implements stream.Inspector.
func (n *Names) State(ctx context.Context, group string, p stream.Partition) (stream.View, error) {
	return n.Log.State(ctx, n.Group(group), p)
}

// StatePartitions implements stream.Sizer, if the log does.
func (n *Names) StatePartitions(ctx context.Context, group, topic string) (int32, error) {
	return statePartitions(ctx, n.Log, n.Group(group), topic)
}

func statePartitions(ctx context.Context, log Log, group, topic string) (int32, error) {
	if s, ok := log.(stream.Sizer); ok {
		return s.StatePartitions(ctx, group, topic)
	}
	return 0, errors.ErrUnsupported
}

// Groups implements stream.Inspector.
func (n *Names) Groups(ctx context.Context) ([]string, error) {
	groups, err := n.Log.Groups(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	groups = append(groups, slices.Collect(maps.Keys(n.live))...)
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// Restores implements stream.Restorer, if the log does.
func (n *Names) Restores() []stream.Restoring {
	if r, ok := n.Log.(stream.Restorer); ok {
		return r.Restores()
	}
	return nil
}

// Standbys implements stream.Follower, if the log does.
func (n *Names) Standbys() []stream.Standby {
	if f, ok := n.Log.(stream.Follower); ok {
		return f.Standbys()
	}
	return nil
}
