package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// member is a stream.Member: a client that reads for it, beats its heart and has its
// transactions, and what the member does by it. Each part has its own state, and they are
// never locked together:
//
//   - life: why the member ended, and what it waits for then.
//   - shares: the partitions that it has, from their assignment to their release.
//   - commits: the transaction under way.
//   - standbys: copies of the states of others, kept warm.
//   - overseer: what is watched beside the client.
//
// The client's goroutine says in callbacks what was assigned and revoked; the member
// hands that to Poll, and the callback of a revocation waits until the Poll after that.
// A member that lets it wait longer than the rebalance timeout ends.
type member struct {
	log      *Log
	group    string
	topics   []string
	slot     int
	id       string // of its transactions
	instance string // its static name; "" is none
	client   *kgo.Client
	wake     chan struct{} // holds a token when Poll is to return early
	alone    chan struct{} // closed when no transaction is left of the process that had its id before
	held     atomic.Bool   // the brokers keep its static name for one that was killed

	life     *lifetime
	shares   *shares
	commits  *committer
	standbys *standbys
	overseer *overseer
}

// OnNewClient implements kgo.HookNewClient: it comes before all other callbacks.
func (s *member) OnNewClient(client *kgo.Client) {
	s.client, s.shares.client, s.commits.client = client, client, client
}

// run runs work beside its caller, unless the member is dead. An error of it ends the
// member.
func (s *member) run(work func() error) {
	s.life.begin(func() {
		if err := work(); err != nil {
			s.end(err)
		}
	})
}

// read moves records from the client to the shares.
func (s *member) read() {
	for {
		fetches := s.client.PollFetches(s.life.ctx)
		if s.life.ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		s.shares.put(fetches)
		for _, f := range fetches.Errors() {
			s.readFailed(f)
		}
		signal(s.shares.ready)
		if pause := s.commits.apart() / fillShare; pause > 0 && fetches.NumRecords() < fewRecords {
			if s.log.wait(s.life.ctx, pause) != nil {
				return
			}
		}
		for s.shares.full() {
			select {
			case <-s.shares.room:
			case <-s.life.ctx.Done():
				return
			}
		}
	}
}

// A fetch of few records costs as much as one of hundreds. So after one the next
// is let fill for a moment, a share of the time between commits that outputs wait
// for anyway.
const (
	fewRecords = 256
	fillShare  = 8
)

// readFailed ends the member where a partition cannot be read.
func (s *member) readFailed(f kgo.FetchError) {
	var group *kgo.ErrGroupSession
	switch err := f.Err; {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		s.run(func() error { return s.overseer.lookFor(s.life.ctx, f.Topic) })
	case errors.As(err, &group), kerr.IsRetriable(err), errors.Is(err, context.Canceled):
		// The client tries again; a group that is lost is told by a callback.
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.end(fmt.Errorf("%s/%d: what group %q should read next is gone: retention was faster than it; raise retention, or set the group's offset: %w", f.Topic, f.Partition, s.group, stream.ErrTrimmed))
	default:
		s.end(fmt.Errorf("read %s/%d: %w", f.Topic, f.Partition, advise(err)))
	}
}

// Poll implements stream.Member.
func (s *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	woken := false
	s.shares.enter()
	defer s.shares.away()
	for {
		select {
		case <-s.wake:
			woken = true
		default:
		}
		if err := s.life.dead(); err != nil {
			return stream.Batch{}, fmt.Errorf("poll: %w", err)
		}
		batch := s.shares.look(limit)
		if woken || len(batch.Revoked)+len(batch.Assigned)+len(batch.Records) > 0 {
			return batch, nil
		}
		select {
		case <-s.shares.ready:
		case <-s.wake:
			woken = true
		case <-ctx.Done():
			return stream.Batch{}, ctx.Err()
		}
	}
}

// Pause implements stream.Member.
func (s *member) Pause(partitions ...stream.Partition) { s.shares.setPaused(partitions, true) }

// Resume implements stream.Member.
func (s *member) Resume(partitions ...stream.Partition) { s.shares.setPaused(partitions, false) }

// Wake implements stream.Member.
func (s *member) Wake() { signal(s.wake) }

// Deliver implements stream.Deliverer.
func (s *member) Deliver(outputs []stream.Record) { s.commits.deliver(outputs) }

// Commit implements stream.Member.
func (s *member) Commit(step stream.Transaction) *stream.Pending {
	pending := stream.NewPending()
	err := s.admit(&step)
	if err != nil || empty(&step) {
		pending.Decide(err)
		s.Wake()
		return pending
	}
	if !s.life.begin(func() {
		err := s.commits.transact(s.life.ctx, &step)
		s.decided(err)
		pending.Decide(err)
		s.Wake()
	}) {
		pending.Decide(fmt.Errorf("commit: %w", s.life.dead()))
		s.Wake()
	}
	return pending
}

// admit makes the commit of a step the one that is outstanding, or ends the member.
func (s *member) admit(step *stream.Transaction) error {
	err := s.life.dead()
	var touched []touched
	if err == nil {
		touched, err = s.shares.admit(step, s.commits.step.touched[:0])
	}
	if err != nil {
		s.end(stream.ErrFenced)
		return fmt.Errorf("commit: %w", err)
	}
	if !empty(step) {
		s.commits.next(touched)
	}
	return nil
}

// decided ends a commit. A member whose commit failed is dead before it is asked for
// another.
func (s *member) decided(err error) {
	if err != nil {
		s.end(stream.ErrFenced)
	}
	s.shares.decided()
}

func empty(step *stream.Transaction) bool { return len(step.Outputs)+len(step.Offsets) == 0 }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
