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

// Log is a log with generations.
type Log interface {
	stream.Log
	stream.Inspector
}

// Committed returns the committed offset of a group, as its pipeline sees offsets. In a repartition
// topic these are the release numbers of events, from the state.
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

// Numbered reports whether pipelines read a topic in their own order, by release numbers.
func Numbered(topic string) bool {
	_, numbered := naming.Owner(topic, naming.Repartition)
	return numbered
}

// released returns the number of the next event to release, from a state.
func released(state stream.View) (stream.Offset, error) {
	data, err := state.Get([]byte{statekey.Released})
	if err != nil || data == nil {
		return 0, err
	}
	next, err := statekey.ReleasedNext(data)
	return stream.Offset(next), err
}

// Topic returns the topic with the history of a pipeline's generations. It has the partitions of
// the pipeline's input.
func Topic(pipeline string) string { return naming.Of(pipeline, naming.Generations) }

// Group returns the group of a reprocessed generation of a pipeline.
func Group(pipeline string, n uint64) string { return naming.Generation(pipeline, n) }

// TopicOf returns the topic of a generation for outputs of events from before it is live. From then
// on the generation writes to topic.
func TopicOf(pipeline, topic string, n uint64) string { return naming.Derived(pipeline, n, topic) }

// Begun describes the start of a generation.
type Begun struct {
	Pipeline    string          `json:"pipeline"`
	Generation  uint64          `json:"generation"`
	Fingerprint string          `json:"fingerprint"`    // of the pipeline's outputs
	Models      []string        `json:"models"`         // name@version and digest
	Group       string          `json:"group"`          // the live group at the start
	Was         string          `json:"was"`            // fingerprint of that group
	From        []stream.Offset `json:"from,omitempty"` // by partition: no outputs for events before this offset; nil means all events
	To          []stream.Offset `json:"to,omitempty"`   // by partition: the generation ends before this offset and is never live; nil means no end
	Input       string          `json:"input"`          // topic
	Outputs     []string        `json:"outputs"`        // topics
	Queues      bool            `json:"queues,omitempty"`
	Time        time.Time       `json:"time"`
	Token       string          `json:"token,omitempty"` // random; tells records of one number apart

	// State is the group with the initial state of the generation, as of the offsets Start by
	// partition. The generation computes nothing before them. "" is an empty state. A generation
	// with State is never live.
	State string          `json:"state,omitempty"`
	Start []stream.Offset `json:"start,omitempty"`

	// Into maps an output topic to the topic that the generation writes instead of its own. A
	// generation with Into is never live.
	Into map[string]string `json:"into,omitempty"`
}

// TopicOf is the function TopicOf, except for topics in Into.
func (b *Begun) TopicOf(topic string) string {
	if into := b.Into[topic]; into != "" {
		return into
	}
	return TopicOf(b.Pipeline, topic, b.Generation)
}

// Live says that a partition's records belong to a generation from an offset on.
type Live struct {
	Generation uint64        `json:"generation"`
	Partition  int32         `json:"partition"`
	Offset     stream.Offset `json:"offset"`
	Time       time.Time     `json:"time"`
}

// entry is a record of the topic; one of the fields is set.
type entry struct {
	Begun *Begun `json:"begun,omitempty"`
	Live  *Live  `json:"live,omitempty"`
	Share *Share `json:"share,omitempty"`
}

func (e entry) record(p stream.Partition) stream.Record {
	value, err := json.Marshal(e)
	if err != nil {
		panic("generation: an entry cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	r := stream.Record{Partition: p, Value: value}
	switch {
	case e.Live != nil:
		r.Time = e.Live.Time
	case e.Share != nil:
		r.Time = e.Share.Time
	}
	return r
}

// History is the history of a pipeline's generations.
type History struct {
	Pipeline string
	Begun    []Begun  // in order
	Live     [][]Live // by partition, in order
	Shares   []Shares // by partition; from a switch on, the live generation decides all keys
}

// Read returns the history of a pipeline. It has no partitions if the pipeline has no history.
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
	h.Live, h.Shares = make([][]Live, topics[i].Partitions), make([]Shares, topics[i].Partitions)
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
			next = after
			if err := h.add(int32(index), &e); err != nil {
				return nil, fmt.Errorf("%s/%d@%d: %w", Topic(pipeline), index, next-1, err)
			}
		}
	}
	return h, nil
}

// add adds an entry of a partition of the topic.
func (h *History) add(partition int32, e *entry) (err error) {
	shares := &h.Shares[partition]
	switch {
	case e.Begun != nil:
		h.begin(*e.Begun)
	case e.Live != nil:
		h.Live[partition] = append(h.Live[partition], *e.Live)
		if n := len(*shares); n > 0 {
			*shares = append(*shares, Share{Partition: partition, Offset: max(e.Live.Offset, (*shares)[n-1].Offset)})
		}
	case e.Share != nil && e.Share.Partition != partition:
		err = fmt.Errorf("%w: it is of partition %d", ErrShare, e.Share.Partition)
	case e.Share != nil:
		*shares, err = shares.Add(*e.Share)
	}
	return err
}

// begin adds the start of a generation. If processes began generations with one number at the same
// time, the first record decides which one has it, and the others find another number.
func (h *History) begin(b Begun) {
	if _, taken := h.Find(b.Generation); !taken {
		h.Begun = append(h.Begun, b)
	}
}

// read returns the entry at or after an offset, and the offset after it. Without an entry it
// returns the same offset.
func read(ctx context.Context, log Log, p stream.Partition, from stream.Offset) (e entry, next stream.Offset, err error) {
	r, found, err := log.Peek(ctx, p, from)
	if err != nil || !found {
		return e, from, err
	}
	e, err = parse(&r)
	return e, r.Offset + 1, err
}

// Parse decodes a record of the topic. Both results are nil if it is a share.
func Parse(r *stream.Record) (begun *Begun, live *Live, err error) {
	e, err := parse(r)
	return e.Begun, e.Live, err
}

func parse(r *stream.Record) (e entry, err error) {
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return entry{}, fmt.Errorf("%v@%d is not a record of generations: %w", r.Partition, r.Offset, err)
	}
	return e, nil
}

// Current returns the newest generation that is live in a partition. 0 is the pipeline's first
// group, before any reprocessing.
func (h *History) Current() uint64 {
	n := uint64(0)
	for _, live := range h.Live {
		for _, l := range live {
			n = max(n, l.Generation)
		}
	}
	return n
}

// Find returns the start of a generation.
func (h *History) Find(n uint64) (Begun, bool) {
	i := slices.IndexFunc(h.Begun, func(b Begun) bool { return b.Generation == n })
	if i < 0 {
		return Begun{}, false
	}
	return h.Begun[i], true
}

// From returns the first offset of a partition that belongs to a generation.
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

// GroupOf returns the group of a generation; for 0 that is the pipeline's first group.
func (h *History) GroupOf(n uint64) string {
	if n == 0 {
		return h.Pipeline
	}
	return Group(h.Pipeline, n)
}

// pipelineOf returns the pipeline of a history topic.
func pipelineOf(topic string) (string, bool) { return naming.Owner(topic, naming.Generations) }
