package generation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Log is what generations are read from and written to.
type Log interface {
	stream.Log
	stream.Inspector
}

// Committed returns up to where a group has committed a partition, by the offsets that its
// pipeline sees. Those of a repartition topic are numbers of events in the order of their
// release, which the state has.
func Committed(ctx context.Context, log Log, group string, p stream.Partition) (stream.Offset, error) {
	if !Numbered(p.Topic) {
		return log.Committed(ctx, group, p)
	}
	state, err := log.State(ctx, group, p)
	if err != nil {
		return 0, err
	}
	return released(state)
}

// Numbered reports whether pipelines read a topic in an order of their own, by numbers.
func Numbered(topic string) bool {
	_, numbered := naming.Owner(topic, naming.Repartition)
	return numbered
}

// released returns the number of the next event that is released beside a partition.
func released(state stream.View) (stream.Offset, error) {
	data, err := state.Get([]byte{statekey.Released})
	if err != nil || data == nil {
		return 0, err
	}
	next, err := statekey.ReleasedNext(data)
	return stream.Offset(next), err
}

// Topic returns the topic that says which generations a pipeline has. It has the
// partitions of the pipeline's input.
func Topic(pipeline string) string { return naming.Of(pipeline, naming.Generations) }

// Group returns the group of a generation of a pipeline that was derived again.
func Group(pipeline string, n uint64) string { return naming.Generation(pipeline, n) }

// TopicOf returns the topic that a generation of a pipeline has for what it makes of
// events from before it was live, where it writes to topic later.
func TopicOf(pipeline, topic string, n uint64) string { return naming.Derived(pipeline, n, topic) }

// Begun says how a generation began.
type Begun struct {
	Pipeline    string          `json:"pipeline"`
	Generation  uint64          `json:"generation"`
	Fingerprint string          `json:"fingerprint"`    // of the pipeline's outputs
	Models      []string        `json:"models"`         // name@version and digest
	Group       string          `json:"group"`          // that was live
	Was         string          `json:"was"`            // its fingerprint
	From        []stream.Offset `json:"from,omitempty"` // by partition: of older events nothing is written; nil is all
	To          []stream.Offset `json:"to,omitempty"`   // by partition: before it the generation ends, and is never live; nil is never
	Input       string          `json:"input"`          // topic
	Outputs     []string        `json:"outputs"`        // topics
	Queues      bool            `json:"queues,omitempty"`
	Time        time.Time       `json:"time"`

	// State is the group whose state the generation begins with, at the offsets Start
	// by partition, and nothing before them is computed; "" is an empty state. One that
	// has any is never live.
	State string          `json:"state,omitempty"`
	Start []stream.Offset `json:"start,omitempty"`

	// Into says, by output topic, where the generation writes instead of a topic of
	// its own. One that has any is never live.
	Into map[string]string `json:"into,omitempty"`
}

// TopicOf is as the function, but where the generation writes elsewhere.
func (b *Begun) TopicOf(topic string) string {
	if into := b.Into[topic]; into != "" {
		return into
	}
	return TopicOf(b.Pipeline, topic, b.Generation)
}

// Live says that a partition's records are a generation's from an offset on.
type Live struct {
	Generation uint64        `json:"generation"`
	Partition  int32         `json:"partition"`
	Offset     stream.Offset `json:"offset"`
	Time       time.Time     `json:"time"`
}

// entry is a record of the topic: one of both.
type entry struct {
	Begun *Begun `json:"begun,omitempty"`
	Live  *Live  `json:"live,omitempty"`
}

func (e entry) record(p stream.Partition) stream.Record {
	value, err := json.Marshal(e)
	if err != nil {
		panic("generation: an entry cannot be encoded: " + err.Error()) // plain data always can
	}
	r := stream.Record{Partition: p, Value: value}
	if e.Live != nil {
		r.Time = e.Live.Time
	}
	return r
}

// History is what a pipeline's generations were.
type History struct {
	Pipeline string
	Begun    []Begun  // in order
	Live     [][]Live // by partition, in order
}

// Read returns the history of a pipeline; without partitions where it has none.
func Read(ctx context.Context, log Log, pipeline string) (*History, error) {
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	h := &History{Pipeline: pipeline}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == Topic(pipeline) })
	if i < 0 {
		return h, nil
	}
	h.Live = make([][]Live, topics[i].Partitions)
	for index := range h.Live {
		next := stream.Offset(0)
		for {
			e, after, err := read(ctx, log, stream.Partition{Topic: Topic(pipeline), Index: int32(index)}, next)
			if err != nil {
				return nil, err
			}
			if after == next {
				break
			}
			if next = after; e.Begun != nil {
				h.Begun = append(h.Begun, *e.Begun)
			}
			if e.Live != nil {
				h.Live[index] = append(h.Live[index], *e.Live)
			}
		}
	}
	return h, nil
}

// read returns the entry at or after an offset, and the offset after it, which is
// the same where there is none.
func read(ctx context.Context, log Log, p stream.Partition, from stream.Offset) (e entry, next stream.Offset, err error) {
	r, found, err := log.Peek(ctx, p, from)
	if err != nil || !found {
		return e, from, err
	}
	e.Begun, e.Live, err = Parse(&r)
	return e, r.Offset + 1, err
}

// Parse reads a record of the topic: one of both is not nil.
func Parse(r *stream.Record) (begun *Begun, live *Live, err error) {
	var e entry
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return nil, nil, fmt.Errorf("%v@%d is no record of generations: %w", r.Partition, r.Offset, err)
	}
	return e.Begun, e.Live, nil
}

// Current returns the newest generation that some partition's records are of; 0 is
// the pipeline's first group, which was never derived again.
func (h *History) Current() uint64 {
	n := uint64(0)
	for _, live := range h.Live {
		for _, l := range live {
			n = max(n, l.Generation)
		}
	}
	return n
}

// Find returns how a generation began.
func (h *History) Find(n uint64) (Begun, bool) {
	i := slices.IndexFunc(h.Begun, func(b Begun) bool { return b.Generation == n })
	if i < 0 {
		return Begun{}, false
	}
	return h.Begun[i], true
}

// From returns the offset from which a partition's records are of a generation.
func (h *History) From(n uint64, partition int32) (stream.Offset, bool) {
	if int(partition) < len(h.Live) {
		for _, l := range h.Live[partition] {
			if l.Generation == n {
				return l.Offset, true
			}
		}
	}
	return 0, false
}

// missing returns the partitions that a generation was not given.
func (h *History) missing(n uint64) map[int32]bool {
	list := map[int32]bool{}
	for index := range h.Live {
		if _, ok := h.From(n, int32(index)); !ok {
			list[int32(index)] = true
		}
	}
	return list
}

// Everywhere reports whether a generation was given all partitions.
func (h *History) Everywhere(n uint64) bool {
	return len(h.Live) > 0 && len(h.missing(n)) == 0
}

// GroupOf returns the group of a generation; of 0 the pipeline's first.
func (h *History) GroupOf(n uint64) string {
	if n == 0 {
		return h.Pipeline
	}
	return Group(h.Pipeline, n)
}

// pipelineOf returns the pipeline that a topic is the history of.
func pipelineOf(topic string) (string, bool) { return naming.Owner(topic, naming.Generations) }
