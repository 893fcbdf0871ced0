package hub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/stream"
)

// partition is a partition of the topic, with the reader that all its subscribers share.
type partition struct {
	hub    *Hub
	at     stream.Partition
	want   sync.Once
	wanted chan struct{} // closed when the first subscriber arrives

	mu          sync.Mutex // guards the fields below and the subscriptions
	subscribers map[string][]*Subscription
	started     bool          // next and index are valid
	next        stream.Offset // see Hub
	index       index
}

func newPartition(h *Hub, at stream.Partition) *partition {
	return &partition{hub: h, at: at, wanted: make(chan struct{}), subscribers: map[string][]*Subscription{}}
}

func (p *partition) add(s *Subscription) {
	p.mu.Lock()
	p.subscribers[string(s.key)] = append(p.subscribers[string(s.key)], s)
	p.mu.Unlock()
	p.hub.metrics.Subscribers.Add(1)
	p.want.Do(func() { close(p.wanted) })
}

func (p *partition) remove(s *Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.live, s.queue = true, false, nil
	p.hub.metrics.Subscribers.Add(-1)
	key := string(s.key)
	rest := slices.DeleteFunc(p.subscribers[key], func(other *Subscription) bool { return other == s })
	if len(rest) == 0 {
		delete(p.subscribers, key)
		return
	}
	p.subscribers[key] = rest
}

// indexed reports whether the index contains all records from offset on that the reader has passed.
// If so, the offset is not beyond the end of the log. If retention has removed records, page finds
// out when it reads them.
func (p *partition) indexed(offset stream.Offset) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started && p.index.start <= offset && offset <= p.next
}

// run waits for the first subscriber, then reads the partition until ctx is done.
func (p *partition) run(ctx context.Context) error {
	select {
	case <-p.wanted:
	case <-ctx.Done():
		return nil
	}
	for failed := 0; ; {
		before := p.position()
		err := p.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, stream.ErrClosed), errors.Is(err, stream.ErrUnknownTopic):
			return fmt.Errorf("hub: %w", err)
		}
		p.hub.metrics.Failures.Add(1)
		if failed++; p.position() > before {
			failed = 1
		}
		select {
		case <-time.After((control.Backoff{}).Delay(p.at.String(), failed)):
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *partition) position() stream.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// read passes records from the reader's position until an error.
func (p *partition) read(ctx context.Context) error {
	first, next, err := p.hub.log.Offsets(ctx, p.at)
	if err != nil {
		return err
	}
	from := p.position()
	if !p.started || from < first { // only this goroutine writes started
		if from, err = p.beginning(ctx, first, next); err != nil {
			return err
		}
		p.begin(from)
	}
	for r, err := range p.tail(ctx, from, p.followed) {
		if err != nil {
			return err
		}
		p.pass(&r)
	}
	return ctx.Err()
}

// tail yields the records of the log. If keep rejects a key, the log may yield a record with only
// its key, offset and a zero time.
func (p *partition) tail(ctx context.Context, from stream.Offset, keep func(key []byte) bool) iter.Seq2[stream.Record, error] {
	if p.hub.keyed == nil {
		return p.hub.log.Tail(ctx, p.at, from)
	}
	return p.hub.keyed.TailKeys(ctx, p.at, from, keep)
}

// followed reports whether a key has subscribers.
func (p *partition) followed(key []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.subscribers[string(key)]) > 0
}

// beginning returns where the reader starts, so that records already in the log fill the index. The
// result is the offset of a record, or the first retained offset. So a scan of the records before
// it always finds its end.
func (p *partition) beginning(ctx context.Context, first, next stream.Offset) (stream.Offset, error) {
	from := max(first, next-stream.Offset(p.hub.options.IndexRecords))
	if from == first {
		return first, nil
	}
	r, found, err := p.hub.log.Peek(ctx, p.at, from)
	if err != nil || !found {
		return first, err
	}
	return r.Offset, nil
}

// begin sets the reader's position to from. Subscribers that lack records before it must read them
// from the log.
func (p *partition) begin(from stream.Offset) {
	var wakes []func()
	p.mu.Lock()
	p.started, p.next, p.index = true, from, newIndex(from, p.hub.options.IndexRecords)
	for _, list := range p.subscribers {
		for _, s := range list {
			s.live = s.live && s.next >= from
			if s.due() {
				wakes = append(wakes, s.wake)
			}
		}
	}
	p.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// pass adds r to the index and offers it to the subscribers of its key.
func (p *partition) pass(r *stream.Record) {
	var few [4]func()
	wakes := few[:0]
	p.mu.Lock()
	p.index.add(hash(r.Key), r.Offset)
	p.next = r.Offset + 1
	if list := p.subscribers[string(r.Key)]; len(list) > 0 {
		bare := p.hub.keyed != nil && r.Time.IsZero()
		kept, bytes := clone(r), size(r)
		for _, s := range list {
			if bare && s.miss(r.Offset) || !bare && s.offer(&kept, bytes) {
				wakes = append(wakes, s.wake)
			}
		}
	}
	p.mu.Unlock()
	p.hub.metrics.Passed.Add(1)
	for _, wake := range wakes {
		wake()
	}
}
