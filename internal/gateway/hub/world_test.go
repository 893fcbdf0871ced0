package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
)

const topic = "results"

var broker kafkatest.Shared

func TestMain(m *testing.M) { os.Exit(broker.Run(m)) }

// source is a log that loses what is before first, and fails every so many
// records.
type source struct {
	engine
	first atomic.Int64
	tails atomic.Int64 // that were begun

	fails  atomic.Int64 // a read fails after so many records; 0 never
	broken atomic.Bool  // no read finds anything
	stands atomic.Bool  // no read comes back before its context is done

	decided func(stream.Record) // is called of a record of TailKeys before it is yielded
}

type engine interface {
	stream.Log
	stream.Inspector
}

var errRead = errors.New("the disk is away")

func (s *source) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return s.tail(ctx, from, s.engine.Tail(ctx, p, from))
}

// TailKeys implements stream.KeyTailer.
func (s *source) TailKeys(ctx context.Context, p stream.Partition, from stream.Offset, keep func(key []byte) bool) iter.Seq2[stream.Record, error] {
	if log, ok := s.engine.(stream.KeyTailer); ok {
		return s.tail(ctx, from, log.TailKeys(ctx, p, from, keep))
	}
	return s.tail(ctx, from, func(yield func(stream.Record, error) bool) {
		for r, err := range s.engine.Tail(ctx, p, from) {
			if err == nil && !keep(r.Key) {
				r = stream.Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key}
			}
			if s.decided != nil {
				s.decided(r)
			}
			if !yield(r, err) {
				return
			}
		}
	})
}

func (s *source) tail(ctx context.Context, from stream.Offset, records iter.Seq2[stream.Record, error]) iter.Seq2[stream.Record, error] {
	s.tails.Add(1)
	return func(yield func(stream.Record, error) bool) {
		if s.stands.Load() {
			<-ctx.Done()
			yield(stream.Record{}, ctx.Err())
			return
		}
		if first := s.first.Load(); int64(from) < first {
			yield(stream.Record{}, fmt.Errorf("tail: offset %d, the first is %d: %w", from, first, stream.ErrTrimmed))
			return
		}
		read := int64(0)
		for r, err := range records {
			if read++; err == nil && (read == s.fails.Load() || s.broken.Load()) {
				r, err = stream.Record{}, errRead
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (s *source) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	if s.stands.Load() {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	first, next, err = s.engine.Offsets(ctx, p)
	return max(first, stream.Offset(s.first.Load())), next, err
}

func (s *source) Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	return s.engine.Peek(ctx, p, max(from, stream.Offset(s.first.Load())))
}

// world is a hub on a log.
type world struct {
	t    testing.TB
	log  *source
	hub  *hub.Hub
	stop func()

	mu        sync.Mutex
	published map[string][]stream.Record // by key
}

func newWorld(t testing.TB, log engine, partitions int32, o hub.Options) *world {
	t.Helper()
	w := &world{t: t, log: &source{engine: log}, published: map[string][]stream.Record{}}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	w.restart(o)
	return w
}

// restart begins with another hub, which knows nothing.
func (w *world) restart(o hub.Options) {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}
	h, err := hub.New(w.t.Context(), w.log, topic, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	w.hub = h
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the hub ended with %v", err)
		}
		w.stop = func() {}
	}
}

// publish appends a record to each of the keys, in one append.
func (w *world) publish(keys ...string) {
	w.t.Helper()
	records := make([]stream.Record, len(keys))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, key := range keys {
		records[i] = stream.Record{
			Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(key),
			Value: fmt.Appendf(nil, "%s %d", key, len(w.published[key])+i), Headers: []stream.Header{{Key: "n", Value: []byte(key)}},
		}
	}
	if err := w.log.Append(w.t.Context(), records...); err != nil {
		w.t.Fatal(err)
	}
	for i := range records {
		w.published[keys[i]] = append(w.published[keys[i]], records[i])
	}
}

// of returns what was published for key from offset from on.
func (w *world) of(key string, from stream.Offset) []stream.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.published[key]
	for i := range all {
		if all[i].Offset >= from {
			return append([]stream.Record(nil), all[i:]...)
		}
	}
	return nil
}

// client is a subscriber that waits to be woken.
type client struct {
	*hub.Subscription
	woken chan struct{}
}

func (w *world) subscribe(key string, from stream.Offset) *client {
	w.t.Helper()
	c := &client{woken: make(chan struct{}, 1)}
	s, err := w.hub.Subscribe(w.t.Context(), []byte(key), from, func() {
		select {
		case c.woken <- struct{}{}:
		default:
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c.Subscription = s
	return c
}

// read returns at least n records, or what came before an error.
func (c *client) read(ctx context.Context, n int) (records []stream.Record, err error) {
	for len(records) < n {
		got, err := c.Read(ctx)
		records = append(records, got...)
		switch {
		case errors.Is(err, errRead):
		case err != nil:
			return records, err
		case len(got) == 0 && c.State() == hub.Idle:
			select {
			case <-c.woken:
			case <-ctx.Done():
				return records, ctx.Err()
			}
		}
	}
	return records, nil
}

// same fails where got is not the beginning of want.
func same(t testing.TB, what string, got, want []stream.Record) {
	t.Helper()
	if len(got) > len(want) {
		t.Errorf("%s: %d records, only %d were published", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i].Offset != want[i].Offset || string(got[i].Value) != string(want[i].Value) || string(got[i].Key) != string(want[i].Key) {
			t.Errorf("%s: record %d is %d %q, want %d %q", what, i, got[i].Offset, got[i].Value, want[i].Offset, want[i].Value)
			return
		}
	}
}

// patience ends reads that would wait for ever.
func patience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
