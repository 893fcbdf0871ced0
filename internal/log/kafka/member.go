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

// member is a stream.Member. It owns a client that reads, sends heartbeats and runs transactions,
// and uses it through these parts. Each part has its own state, and no two parts are locked at the
// same time:
//
//   - life: why the member ended, and the work that its end waits for.
//   - shares: the owned partitions, from their assignment to their release.
//   - commits: the running transaction.
//   - standbys: warm copies of the states of other processes.
//   - overseer: checks that run beside the client.
//
// The client's goroutine reports assigned and revoked partitions in callbacks. The member passes
// them to Poll. The callback of a revocation waits until the next Poll after that. The member ends
// if this takes longer than the rebalance timeout.
type member struct {
	log      *Log
	group    string
	topics   []string
	slot     int
	id       string // transactional id
	instance string // static name; "" if it has none
	client   *kgo.Client
	wake     chan struct{} // one token: Poll returns early
	alone    chan struct{} // closed when no transaction of the previous process with the same id is left
	held     atomic.Bool   // the brokers still reserve its static name for a killed process

	life     *lifetime
	shares   *shares
	commits  *committer
	standbys *standbys
	overseer *overseer
}

// OnNewClient implements kgo.HookNewClient. The client calls it before all other callbacks.
func (s *member) OnNewClient(client *kgo.Client) {
	s.client, s.shares.client, s.commits.client = client, client, client
}

// run runs work in a goroutine, unless the member has ended. If work returns an error, the member
// ends.
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

// A fetch of a few records costs as much as one of hundreds. So after a fetch of fewer than
// fewRecords, the reader pauses before the next. The pause is 1/fillShare of the time between
// commits that outputs wait for.
const (
	fewRecords = 256
	fillShare  = 8
)

// readFailed ends the member if a partition cannot be read.
func (s *member) readFailed(f kgo.FetchError) {
	var group *kgo.ErrGroupSession
	switch err := f.Err; {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		s.run(func() error { return s.overseer.lookFor(s.life.ctx, f.Topic) })
	case errors.As(err, &group), kerr.IsRetriable(err), errors.Is(err, context.Canceled):
		// The client retries. A callback reports a lost group.
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.end(fmt.Errorf("%s/%d: retention deleted the records that group %q should read next; raise retention, or set the group's offset: %w", f.Topic, f.Partition, s.group, stream.ErrTrimmed))
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

// admit makes the commit of a transaction the outstanding one. If it cannot, it ends the member.
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

// decided ends a commit. If the commit failed, it ends the member before another commit can be
// admitted.
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
