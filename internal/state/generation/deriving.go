package generation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Deriving is the log of one generation of a pipeline, as it has the pipeline see
// it: the pipeline's name is the generation's group, what it makes of events from
// before the generation is live goes to topics of the generation's own, and its
// journal goes on with that of the generation before.
//
//  1. No record is given out that the group which is live has not committed. So
//     where that one stops, the generation is at the same offset or before it.
//  2. A record from the offset of the switch on is given out when all before it is
//     committed. So an output of a step is from before that offset, or from after
//     it, as a whole; but for events that were queued, which are known.
type Deriving struct {
	Log // itself

	pipeline string
	begun    Begun
	alone    bool // other groups are not joined
	pace     *pace

	mu    sync.Mutex // guards the rest
	marks map[int32]*mark
}

// mark is what is known of a partition.
type mark struct {
	until stream.Offset // what the live group committed
	end   stream.Offset // from where the generation is live; below 0 where that is not said yet
	next  stream.Offset // of the topic of generations
	asked time.Time
}

// newDeriving returns the log of a generation that is live, or begins to be.
func newDeriving(log Log, pipeline string, begun Begun) *Deriving {
	return &Deriving{Log: itself(log), pipeline: pipeline, begun: begun, pace: &pace{}, marks: map[int32]*mark{}}
}

// Derive returns the log of a generation that is behind the live one, for its
// pipeline alone: other groups that are joined get nothing. It takes as many events
// a second as rate says, where that is above 0.
func Derive(log Log, pipeline string, begun Begun, rate float64) *Deriving {
	d := newDeriving(log, pipeline, begun)
	d.alone, d.pace.rate = true, rate
	return d
}

// below returns d with what wrap makes of its log.
func (d *Deriving) below(wrap func(stream.Log) stream.Log) *Deriving {
	log, ok := wrap(d.Log).(Log)
	if !ok {
		panic("what reads a log in order cannot be inspected")
	}
	return &Deriving{Log: log, pipeline: d.pipeline, begun: d.begun, alone: d.alone, pace: d.pace, marks: map[int32]*mark{}}
}

func (d *Deriving) group() string { return Group(d.pipeline, d.begun.Generation) }

// CreateTopic implements stream.Log: each that the pipeline writes is made for the
// generation too.
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

// StatePartitions implements stream.Sizer, where the log does.
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

// askEvery is how often the live group is asked how far it is.
const askEvery = 50 * time.Millisecond

// look returns which records of a partition may be given out: those before until,
// and from end on, where that is not below 0.
func (d *Deriving) look(ctx context.Context, p stream.Partition) (until, end stream.Offset, err error) {
	d.mu.Lock()
	m := d.marks[p.Index]
	if m == nil {
		m = &mark{end: -1}
		d.marks[p.Index] = m
	}
	due := m.end < 0 && time.Since(m.asked) >= askEvery
	if due {
		m.asked = time.Now() // who comes meanwhile uses what is known
	}
	until, end, next := m.until, m.end, m.next
	d.mu.Unlock()
	if !due {
		return d.bounded(p, until), end, nil
	}
	// The record of the switch is read after the offset: it is in the newest step
	// of the live group, so that without it there is no later one than until.
	if until, err = Committed(ctx, d.Log, d.begun.Group, p); err == nil {
		end, next, err = d.ending(ctx, p.Index, next)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look how far group %q is in %v: %w", d.begun.Group, p, err)
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

// first returns the offset of a partition before whose events nothing is written.
func (d *Deriving) first(p stream.Partition) stream.Offset {
	if int(p.Index) < len(d.begun.From) {
		return d.begun.From[p.Index]
	}
	return 0
}

// pace says how many events are given out, of all members together: so many at
// once that they share a call and a commit, and so few that live ones hardly wait.
type pace struct {
	rate float64 // a second; 0 is as many as there are

	mu   sync.Mutex // guards the rest
	left float64
	at   time.Time
}

// paceEvery is how often events are given out at a rate.
const paceEvery = 20 * time.Millisecond

func (p *pace) most() float64 { return max(1, p.rate*paceEvery.Seconds()) }

// take returns how many of limit may be given out.
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

// fill counts what time has brought: what was not taken is lost but for as much
// again.
func (p *pace) fill() {
	now := time.Now()
	p.left = min(2*p.most(), p.left+p.rate*now.Sub(p.at).Seconds())
	p.at = now
}

// wait returns how long it is until some may be given out.
func (p *pace) wait() time.Duration {
	if p.rate <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	return time.Duration(max(0, p.most()-p.left) / p.rate * float64(time.Second))
}

// give takes back what was not given out.
func (p *pace) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += float64(n)
}
