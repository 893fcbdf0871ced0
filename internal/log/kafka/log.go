// Package kafka is a stream.Log on Apache Kafka 2.5 and later. It runs the same pipelines on many
// machines. A stream.Transaction is one short Kafka transaction. It holds the outputs, the state
// changes as records of a compacted changelog, and the input offsets.
//
// Differences from other logs:
//
//   - Offsets have gaps, because transaction markers use some.
//   - If a broker fails during an Append, some of its records may be written.
//     Records with times more than a day ago may be written twice, because a
//     restarted broker has forgotten their producer
//     (producer.id.expiration.ms). AppendOnce writes all of its records or none.
//   - Append sets times in milliseconds.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

var (
	_ stream.Log       = (*Log)(nil)
	_ stream.Inspector = (*Log)(nil)
	_ stream.Restorer  = (*Log)(nil)
	_ stream.Follower  = (*Log)(nil)
	_ stream.Member    = (*member)(nil)
)

// Log is a stream.Log and stream.Inspector on Apache Kafka. Open returns one.
//
// Each member has its own client, for its group and its transactions. Each producer of AppendOnce
// and each Tail also has one. All other calls share one client.
type Log struct {
	opts   Options
	client *kgo.Client
	store  *store
	topics topicCache
	keys   keyStore
	told   *logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	appending sync.Mutex // held while the records of one append enter the client, so that they stay together

	mu        sync.Mutex // guards the fields below
	closed    bool
	members   map[*member]bool
	slots     map[string]map[int]bool // slots in use, by group
	producers producers
	tails     sync.WaitGroup
	tailings  map[*tailing]bool

	restores restorer
	reads    reads
	offsets  groupOffsets
	records  *recordPool // for fetches; records that are not recycled are garbage-collected
}

// newLog returns a log without a client and a store.
func newLog(o Options) *Log {
	l := &Log{
		opts: o.withDefaults(), members: map[*member]bool{}, tailings: map[*tailing]bool{}, slots: map[string]map[int]bool{},
		restores: restorer{all: map[*progress]bool{}, room: make(chan struct{}, restoresMost)}, records: newRecordPool(1 << 14),
	}
	l.told = newLogger(l.opts.Logger)
	l.topics.log, l.keys.log, l.producers.log, l.restores.log, l.reads.log, l.offsets.log = l, l, l, l, l, l
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Open connects to the brokers.
func Open(ctx context.Context, o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	l := newLog(o)
	var err error
	if l.client, err = l.newClient(); err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	reached := make(chan error, 1)
	go func() { reached <- l.reach(ctx) }()
	l.store, err = openStore(&l.opts)
	if err = cmp.Or(<-reached, err); err != nil {
		if l.store != nil {
			err = errors.Join(err, l.store.close())
		}
		l.cancel()
		l.client.Close()
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	return l, nil
}

// usable returns an error if the log is closed.
func (l *Log) usable() error {
	if l.ctx.Err() != nil {
		return stream.ErrClosed
	}
	return nil
}

// until returns a context that ends with ctx or with the log.
func (l *Log) until(ctx context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return both, func() { stop(); cancel() }
}

// failure returns why an operation with ctx failed: the log was closed, the caller gave up, or err.
func (l *Log) failure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case l.ctx.Err() != nil:
		return stream.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, kgo.ErrClientClosed):
		return stream.ErrClosed
	}
	return advise(err)
}

// Close implements stream.Log.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.cancel()
	var members []*member
	for s := range l.members {
		members = append(members, s)
	}
	l.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range members {
		closing.Go(func() { s.end(stream.ErrClosed); <-s.life.over })
	}
	closing.Wait()
	l.tails.Wait()
	l.producers.close()
	l.client.Close()
	return l.store.close()
}
