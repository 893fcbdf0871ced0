package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
)

const senders = 8 // appends under way at once; when all are, the schedule goes on and the wait counts

// schedule is when each event is due.
type schedule struct {
	rate  int
	start time.Time
	lines [][]byte

	mu     sync.Mutex                 // guards the rest
	places map[stream.Partition][]int // event at each offset
}

func (s *schedule) due(event int) time.Time {
	return s.start.Add(time.Duration(float64(event) / float64(s.rate) * float64(time.Second)))
}

// run appends the events when they are due.
func (s *schedule) run(ctx context.Context, log stream.Log) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	s.start = time.Now()
	for next := 0; next < len(s.lines) && ctx.Err() == nil; {
		if wait := time.Until(s.due(next)); wait > 0 {
			time.Sleep(wait)
		}
		first := next
		for next < len(s.lines) && next-first < 4096 && !s.due(next).After(time.Now()) {
			next++
		}
		if next == first {
			continue
		}
		group.Go(func() error { return s.append(ctx, log, first, s.lines[first:next]) })
	}
	return group.Wait()
}

func (s *schedule) append(ctx context.Context, log stream.Log, first int, lines [][]byte) error {
	records := make([]stream.Record, len(lines))
	for i, line := range lines {
		records[i] = ingest.NewRecord(exampleTopic, "customer", line)
	}
	if err := log.Append(ctx, records...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range records {
		places := s.places[r.Partition]
		for int(r.Offset) >= len(places) {
			places = append(places, -1)
		}
		places[r.Offset] = first + i
		s.places[r.Partition] = places
	}
	return nil
}

// reading is when the decision about an event could be read.
type reading struct {
	partition stream.Partition // of the event
	offset    stream.Offset
	at        time.Time
}

// decisionTails read a topic of decisions as they become durable.
type decisionTails struct {
	log   *embedded.Log
	stop  context.CancelFunc
	group errgroup.Group
	tails []*decisionTail
}

// decisionTail reads one partition.
type decisionTail struct {
	partition stream.Partition
	next      atomic.Int64 // offset that was not yet read
	readings  []reading
}

func tailDecisions(ctx context.Context, log *embedded.Log, topic string) (*decisionTails, error) {
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == topic })
	if i < 0 {
		return nil, fmt.Errorf("topic %q: %w", topic, stream.ErrUnknownTopic)
	}
	d := &decisionTails{log: log}
	ctx, d.stop = context.WithCancel(ctx)
	for index := range topics[i].Partitions {
		t := &decisionTail{partition: stream.Partition{Topic: topic, Index: index}}
		d.tails = append(d.tails, t)
		d.group.Go(func() error { return t.run(ctx, log) })
	}
	return d, nil
}

func (t *decisionTail) run(ctx context.Context, log stream.Log) error {
	for r, err := range log.Tail(ctx, t.partition, 0) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		at := time.Now()
		for _, h := range r.Headers {
			if h.Key == header.Position {
				event, err := parsePosition(string(h.Value))
				if err != nil {
					return err
				}
				event.at = at
				t.readings = append(t.readings, event)
			}
		}
		t.next.Store(int64(r.Offset) + 1)
	}
	return nil
}

// parsePosition reads topic/partition@offset.
func parsePosition(text string) (reading, error) {
	where, offset, ok := strings.Cut(text, "@")
	slash := strings.LastIndexByte(where, '/')
	if !ok || slash < 0 {
		return reading{}, fmt.Errorf("position %q: want topic/partition@offset", text)
	}
	index, err := strconv.ParseInt(where[slash+1:], 10, 32)
	if err != nil {
		return reading{}, fmt.Errorf("position %q: %w", text, err)
	}
	at, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return reading{}, fmt.Errorf("position %q: %w", text, err)
	}
	return reading{partition: stream.Partition{Topic: where[:slash], Index: int32(index)}, offset: stream.Offset(at)}, nil
}

// end waits until all that is in the topic was read, and returns it.
func (d *decisionTails) end(ctx context.Context) ([]reading, error) {
	defer d.stop()
	var all []reading
	for _, t := range d.tails {
		_, next, err := d.log.Offsets(ctx, t.partition)
		if err != nil {
			return nil, err
		}
		for t.next.Load() < int64(next) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	d.stop()
	if err := d.group.Wait(); err != nil {
		return nil, err
	}
	for _, t := range d.tails {
		all = append(all, t.readings...)
	}
	return all, ctx.Err()
}
