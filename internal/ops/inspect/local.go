package inspect

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Log is a log that can be inspected.
type Log interface {
	stream.Log
	stream.Inspector
}

// Local is the Directory of a log that this process has opened.
type Local struct {
	Log

	runners []*pipeline.Runner // pipelines of this process
	gateway []string           // topics that the gateway of this process uses
	own     []string           // topics that the gateway keeps for itself
	reads   []observe.Read     // of the runners
	lag     observe.LagMeter
}

// NewLocal returns the Directory of a log for a process that runs pipelines and possibly a gateway.
// gateway are the topics that the gateway uses, and own are those that it keeps for itself.
func NewLocal(log Log, runners []*pipeline.Runner, gateway, own []string) *Local {
	l := &Local{Log: log, runners: runners, gateway: gateway, own: own}
	for _, r := range runners {
		l.reads = append(append(l.reads, r.Reads()...), r.SinkReads()...)
	}
	return l
}

// List implements Directory.
func (l *Local) List(ctx context.Context) ([]Topic, error) {
	topics, err := l.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	list := make([]Topic, len(topics))
	for i, t := range topics {
		list[i] = Topic{Name: t.Name, Key: t.Key, Partitions: make([]Partition, t.Partitions)}
		for p := range list[i].Partitions {
			at := &list[i].Partitions[p]
			if at.First, at.Next, err = l.Offsets(ctx, stream.Partition{Topic: t.Name, Index: int32(p)}); err != nil {
				return nil, fmt.Errorf("list topics: %w", err)
			}
		}
	}
	return list, nil
}

// Records implements Directory.
func (l *Local) Records(ctx context.Context, q Query) iter.Seq2[stream.Record, error] {
	if q.View {
		return l.viewed(ctx, q)
	}
	return func(yield func(stream.Record, error) bool) {
		topic, err := Find(ctx, l, q.Topic)
		if err == nil && q.Partition >= int32(len(topic.Partitions)) {
			err = fmt.Errorf("partition %d of topic %q: %w: it has the partitions 0 to %d", q.Partition, q.Topic, stream.ErrUnknownTopic, len(topic.Partitions)-1)
		}
		if err != nil {
			yield(stream.Record{}, err)
			return
		}
		left := q.Limit
		counted := func(r stream.Record, err error) bool {
			left--
			return yield(r, err) && left != 0
		}
		var partitions []int32
		for p := range int32(len(topic.Partitions)) {
			if q.Partition < 0 || q.Partition == p {
				partitions = append(partitions, p)
			}
		}
		if q.Follow && len(partitions) > 1 {
			l.merge(ctx, topic, partitions, q, counted)
			return
		}
		for _, p := range partitions {
			if !l.tail(ctx, topic, p, q, counted) {
				return
			}
		}
	}
}

// tail yields the records of one partition. It reports whether to continue with the next partition.
func (l *Local) tail(ctx context.Context, topic Topic, p int32, q Query, yield func(stream.Record, error) bool) bool {
	at := topic.Partitions[p]
	from := stream.Offset(q.From)
	if from < 0 {
		from += at.Next
	}
	from = max(from, at.First)
	if !q.Follow && from >= at.Next {
		return true
	}
	for r, err := range l.Tail(ctx, stream.Partition{Topic: topic.Name, Index: p}, from) {
		if err != nil {
			yield(r, err)
			return false
		}
		if !yield(r, nil) {
			return false
		}
		if !q.Follow && r.Offset+1 >= at.Next {
			break
		}
	}
	return true
}

// merge follows several partitions at the same time.
func (l *Local) merge(ctx context.Context, topic Topic, partitions []int32, q Query, yield func(stream.Record, error) bool) {
	type found struct {
		record stream.Record
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	records := make(chan found)
	var tails sync.WaitGroup
	defer tails.Wait()
	defer cancel()
	for _, p := range partitions {
		tails.Go(func() {
			l.tail(ctx, topic, p, q, func(r stream.Record, err error) bool {
				select {
				case records <- found{r, err}:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
	}
	for {
		select {
		case f := <-records:
			if !yield(f.record, f.err) || f.err != nil {
				return
			}
		case <-ctx.Done():
			yield(stream.Record{}, ctx.Err())
			return
		}
	}
}

// Entries implements Directory.
func (l *Local) Entries(ctx context.Context, pipeline string, key *string) iter.Seq2[Entry, error] {
	return l.entries(ctx, pipeline, prefixes(key), func(stored []byte) bool { return key == nil || statekey.Owns(stored, *key) })
}

// EntriesOf implements Directory.
func (l *Local) EntriesOf(ctx context.Context, pipeline string, kind byte) iter.Seq2[Entry, error] {
	return l.entries(ctx, pipeline, [][]byte{{kind}}, func([]byte) bool { return true })
}

func (l *Local) entries(ctx context.Context, pipeline string, prefixes [][]byte, wanted func(stored []byte) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		views, err := l.views(ctx, pipeline)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, v := range views {
			for _, prefix := range prefixes {
				for e, err := range v.state.Scan(prefix) {
					if err != nil {
						yield(Entry{}, fmt.Errorf("state of %q beside partition %d: %w", pipeline, v.partition, err))
						return
					}
					if !wanted(e.Key) {
						continue
					}
					if !yield(newEntry(v.partition, e), nil) {
						return
					}
				}
			}
		}
	}
}

// prefixes returns the prefixes of the stored keys of a user key, in order. For nil it returns the
// prefix of all stored keys.
func prefixes(key *string) [][]byte {
	if key == nil {
		return [][]byte{nil}
	}
	return statekey.Prefixes(*key)
}

func unknownPipeline(name string, groups []string) error {
	hint := "no pipeline has committed an offset yet: start one with afterbay run"
	if groups = slices.DeleteFunc(slices.Clone(groups), deadletter.IsGroup); len(groups) > 0 {
		hint = "there are " + strings.Join(groups, ", ")
	}
	return fmt.Errorf("%w %q: %s", ErrUnknownPipeline, name, hint)
}

type stateView struct {
	partition int32
	state     stream.View
}

// views returns the state of a pipeline for each partition that it has committed in.
func (l *Local) views(ctx context.Context, pipeline string) ([]stateView, error) {
	groups, err := l.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pipelines: %w", err)
	}
	if !slices.Contains(groups, pipeline) {
		return nil, unknownPipeline(pipeline, groups)
	}
	topics, err := l.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	// In time order, later events can have state while the first record still waits for its turn.
	ordered := []string{pipeline, naming.Of(naming.Root(pipeline), naming.Repartition)} // topics of a stage or of a pipeline
	var views []stateView
	for _, t := range topics {
		for i := range t.Partitions {
			p := stream.Partition{Topic: t.Name, Index: i}
			if next, err := l.Committed(ctx, pipeline, p); err != nil {
				return nil, fmt.Errorf("state of %q beside %v: %w", pipeline, p, err)
			} else if next == 0 && !slices.Contains(ordered, t.Name) {
				continue
			}
			view, err := l.State(ctx, pipeline, p)
			if err != nil {
				return nil, fmt.Errorf("state of %q beside %v: %w", pipeline, p, err)
			}
			views = append(views, stateView{i, view})
		}
	}
	return views, nil
}

// FindRunner returns the runner of a pipeline of this process.
func FindRunner(runners []*pipeline.Runner, pipeline string) (*pipeline.Runner, error) {
	var names []string
	for _, r := range runners {
		if r.Name() == pipeline {
			return r, nil
		}
		names = append(names, r.Name())
	}
	return nil, fmt.Errorf("%w %q: this process runs %v", ErrUnknownPipeline, pipeline, names)
}
