package generation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Deriving is the log that the pipeline of one generation sees. The pipeline's name stands for the
// generation's group. Outputs of events from before the generation is live go to the generation's
// own topics. Its journal continues that of the previous generation.
//
//  1. It returns only records that the live group has committed. So if the live
//     group stops, the generation is at the same offset or before it.
//  2. It returns records from the switch offset on only after all earlier ones are
//     committed. So all outputs of a transaction are from before that offset, or
//     all from after it. Queued events are the exception; their offsets are known.
type Deriving struct {
	Log // the log without generations

	pipeline string
	begun    Begun
	alone    bool // joins of other groups get nothing
	pace     *pace

	mu    sync.Mutex // guards the fields below
	marks map[int32]*mark
}

// mark caches the progress of a partition.
type mark struct {
	until stream.Offset // offset that the live group has committed
	end   stream.Offset // first offset of the live generation; below 0 if unknown
	next  stream.Offset // next offset in the topic of generations
	asked time.Time
}

// newDeriving returns the log of a generation that is live or will be.
func newDeriving(log Log, pipeline string, begun Begun) *Deriving {
	return &Deriving{Log: itself(log), pipeline: pipeline, begun: begun, pace: &pace{}, marks: map[int32]*mark{}}
}

// Derive returns the log of a generation that reprocesses behind the live one. It is for its
// pipeline only: members of other groups get nothing. If rate is above 0, it limits the events per
// second.
func Derive(log Log, pipeline string, begun Begun, rate float64) *Deriving {
	d := newDeriving(log, pipeline, begun)
	d.alone, d.pace.rate = true, rate
	return d
}

// below returns a copy of d on the log that wrap returns.
func (d *Deriving) below(wrap func(stream.Log) stream.Log) *Deriving {
	log, ok := wrap(d.Log).(Log)
	if !ok {
		panic("a log that is read in order cannot be inspected")
	}
	return &Deriving{Log: log, pipeline: d.pipeline, begun: d.begun, alone: d.alone, pace: d.pace, marks: map[int32]*mark{}}
}

func (d *Deriving) group() string { return Group(d.pipeline, d.begun.Generation) }

// CreateTopic implements stream.Log. It also creates the generation's own copy of each output
// topic.
func (d *Deriving) CreateTopic(ctx context.Context, t stream.Topic) error {
	if err := d.Log.CreateTopic(ctx, t); err != nil || !slices.Contains(d.begun.Outputs, t.Name) {
		return err
	}
	t.Name = d.begun.TopicOf(t.Name)
	return d.Log.CreateTopic(ctx, t)
}

// Committed implements stream.Inspector.
func (d *Deriving) Committed(ctx context.Context, group string, p stream.Partition) (stream.Offset, error) {
	return d.Log.Committed(ctx, d.named(group), p)
}

// State implements stream.Inspector.
func (d *Deriving) State(ctx context.Context, group string, p stream.Partition) (stream.View, error) {
	return d.Log.State(ctx, d.named(group), p)
}

// StatePartitions implements stream.Sizer, if the log does.
func (d *Deriving) StatePartitions(ctx context.Context, group, topic string) (int32, error) {
	return statePartitions(ctx, d.Log, d.named(group), topic)
}

func (d *Deriving) named(group string) string {
	if group == d.pipeline {
		return d.group()
	}
	return group
}

// Join implements stream.Log.
func (d *Deriving) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	switch {
	case group != d.pipeline && d.alone:
		return NewIdle(), nil
	case group != d.pipeline:
		return d.Log.Join(ctx, group, topics...)
	}
	inner, err := d.Log.Join(ctx, d.group(), topics...)
	if err != nil {
		return nil, err
	}
	s := &member{Member: inner, of: d, ctx: context.WithoutCancel(ctx), parts: map[stream.Partition]*part{}}
	if early, ok := inner.(stream.EarlyReader); ok && !d.alone {
		return &earlyMember{member: s, inner: early}, nil
	}
	return s, nil
}

// askEvery is the interval for reading the progress of the live group.
const askEvery = 50 * time.Millisecond

// look returns which records of a partition may be returned: those before until, and those from end
// on if end is not below 0.
func (d *Deriving) look(ctx context.Context, p stream.Partition) (until, end stream.Offset, err error) {
	d.mu.Lock()
	m := d.marks[p.Index]
	if m == nil {
		m = &mark{end: -1}
		d.marks[p.Index] = m
	}
	due := m.end < 0 && time.Since(m.asked) >= askEvery
	if due {
		m.asked = time.Now() // concurrent callers use the cached values
	}
	until, end, next := m.until, m.end, m.next
	d.mu.Unlock()
	if !due {
		return d.bounded(p, until), end, nil
	}
	// Read the switch record after the offset. It is in the newest transaction of the live group.
	// So if there is no record, there is no later committed offset than until.
	if until, err = Committed(ctx, d.Log, d.begun.Group, p); err == nil {
		end, next, err = d.ending(ctx, p.Index, next)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the offset of group %q in %v: %w", d.begun.Group, p, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m.until, m.end, m.next = max(m.until, until), end, max(m.next, next)
	return d.bounded(p, m.until), m.end, nil
}

func (d *Deriving) bounded(p stream.Partition, until stream.Offset) stream.Offset {
	if int(p.Index) < len(d.begun.To) {
		return min(until, d.begun.To[p.Index])
	}
	return until
}

// ending looks for the record that makes the generation live in a partition.
func (d *Deriving) ending(ctx context.Context, partition int32, from stream.Offset) (end, next stream.Offset, err error) {
	p := stream.Partition{Topic: Topic(d.pipeline), Index: partition}
	for {
		e, after, err := read(ctx, d.Log, p, from)
		switch {
		case err != nil || after == from:
			return -1, from, err
		case e.Live != nil && e.Live.Generation == d.begun.Generation:
			return e.Live.Offset, after, nil
		}
		from = after
	}
}

// first returns the offset before which the generation writes no outputs.
func (d *Deriving) first(p stream.Partition) stream.Offset {
	if int(p.Index) < len(d.begun.From) {
		return d.begun.From[p.Index]
	}
	return 0
}

// pace limits the rate of events of all members together. It releases enough events at once to
// share calls and a commit. It releases few enough that live events hardly wait.
type pace struct {
	rate float64 // events per second; 0 is unlimited

	mu   sync.Mutex // guards the fields below
	left float64
	at   time.Time
}

// paceEvery is the interval of releases under a rate.
const paceEvery = 20 * time.Millisecond

func (p *pace) most() float64 { return max(1, p.rate*paceEvery.Seconds()) }

// take returns how many of limit events may be returned.
func (p *pace) take(limit int) int {
	if p.rate <= 0 {
		return limit
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fill(); p.left < p.most() {
		return 0
	}
	n := min(limit, int(p.left))
	p.left -= float64(n)
	return n
}

// fill adds the events for the elapsed time. At most two intervals accumulate.
func (p *pace) fill() {
	now := time.Now()
	p.left = min(2*p.most(), p.left+p.rate*now.Sub(p.at).Seconds())
	p.at = now
}

// wait returns the time until the next events may be returned.
func (p *pace) wait() time.Duration {
	if p.rate <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	return time.Duration(max(0, p.most()-p.left) / p.rate * float64(time.Second))
}

// give returns unused events.
func (p *pace) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += float64(n)
}
