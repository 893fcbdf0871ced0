package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// member is a stream.Member, with a client that reads for it, beats its
// heart and commits its transactions.
//
// The client's goroutine says in callbacks what was assigned and revoked; the
// member hands that to Poll, and the callback of a revocation waits until the
// Poll after that: so a partition has one owner, and what its owner computed can
// be committed.
//
//  1. assigned: a share is made, and its state restored beside heartbeats.
//  2. restored: Poll returns it as Assigned.
//  3. revoked: Poll returns it as Revoked; the callback waits.
//  4. The Poll after releases it, once no commit is outstanding.
//
// A member that lets the callback wait longer than the rebalance timeout ends.
type member struct {
	log    *Log
	group  string
	topics []string
	counts map[string]int32 // partitions of each of topics that have state
	slot   int
	id     string // of its transactions
	member string // its static name; "" is none
	client *kgo.Client
	signals
	lifetime

	mu       sync.Mutex // guards the rest, and the fields of shares
	shares   []*share
	standbys map[stream.Partition]*standby // that it is to be
	held     bool                          // the brokers keep its static name for one that was killed
	err      error                         // why it is dead
	looking  bool                          // for a topic that may be gone
	polls
	commits
}

// signals hold one token each.
type signals struct {
	wake   chan struct{} // Poll returns early
	ready  chan struct{} // there may be something for Poll
	room   chan struct{} // there may be room for more records
	duties chan struct{} // standbys may have changed
}

// lifetime is how a session ends.
type lifetime struct {
	ctx    context.Context // ends with the member
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines
	alone  chan struct{}  // closed when no transaction is left of who had its id before
	ended  chan struct{}  // closed when nothing of the member is left
}

// polls are the calls of Poll.
type polls struct {
	polling bool            // in Poll
	seen    time.Time       // when it last was in Poll
	turn    int             // which of shares the next Poll begins with
	taken   []stream.Record // what the last Poll returned; the slice is used again
}

// commits are the commits of a member, one at a time.
type commits struct {
	beside  *kgo.Client   // writes outputs outside transactions: as they are made, or after; nil under ExactlyOnce
	lease   lease         // of beside under AtMostOnce
	pending bool          // a commit is outstanding
	begun   time.Time     // when the newest commit began
	every   time.Duration // how far apart commits are, at most their usual interval; 0 where outputs do not wait for them

	step             stepRecords // of the commit under way
	proven           proven
	inFlight, coming *delivered // outputs written beside that, and beside the next
}

// read moves records from the client to the shares.
func (s *member) read() {
	for {
		fetches := s.client.PollFetches(s.ctx)
		if s.ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		s.mu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if f.Err != nil {
				s.readFailed(f)
				return
			}
			sh := s.find(stream.Partition{Topic: f.Topic, Index: f.Partition})
			if sh != nil && !sh.revoked {
				sh.put(f.Records)
			}
		})
		pause := s.every / fillShare
		s.mu.Unlock()
		signal(s.ready)
		if pause > 0 && fetches.NumRecords() < fewRecords {
			if s.log.wait(s.ctx, pause) != nil {
				return
			}
		}
		for s.full() {
			select {
			case <-s.room:
			case <-s.ctx.Done():
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

// readFailed ends the member where a partition cannot be read. Its caller
// holds mu.
func (s *member) readFailed(f kgo.FetchTopicPartition) {
	var group *kgo.ErrGroupSession
	switch err := f.Err; {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		s.lookFor(f.Topic)
	case errors.As(err, &group), kerr.IsRetriable(err), errors.Is(err, context.Canceled):
		// The client tries again; a group that is lost is told by a callback.
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.endLocked(fmt.Errorf("%s/%d: what group %q should read next is gone: retention was faster than it; raise retention, or set the group's offset: %w", f.Topic, f.Partition, s.group, stream.ErrTrimmed))
	default:
		s.endLocked(fmt.Errorf("read %s/%d: %w", f.Topic, f.Partition, advise(err)))
	}
}

// lookFor ends the member where a topic that it reads is gone: one of the same
// name that comes later is another. A broker that did not hear of a topic yet
// says the same for a moment. Its caller holds mu.
func (s *member) lookFor(topic string) {
	if s.looking || s.err != nil {
		return
	}
	s.looking = true
	s.work.Go(func() {
		_, err := s.log.topics.refresh(s.ctx, topic)
		for tries := 1; errors.Is(err, stream.ErrUnknownTopic) && tries < 8; tries++ {
			if s.log.wait(s.ctx, backOff(tries)) != nil {
				return
			}
			_, err = s.log.topics.refresh(s.ctx, topic)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looking = false
		if errors.Is(err, stream.ErrUnknownTopic) {
			s.endLocked(refuse("restore it; or, since the state is of its records, begin anew under another pipeline name", "topic %q is gone: somebody deleted it", topic))
		}
	})
}

// Poll implements stream.Member.
func (s *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	woken := false
	s.enter()
	defer s.away()
	for {
		select {
		case <-s.wake:
			woken = true
		default:
		}
		batch, err := s.look(limit)
		if err != nil {
			return stream.Batch{}, fmt.Errorf("poll: %w", err)
		}
		if woken || len(batch.Revoked)+len(batch.Assigned)+len(batch.Records) > 0 {
			return batch, nil
		}
		select {
		case <-s.ready:
		case <-s.wake:
			woken = true
		case <-ctx.Done():
			return stream.Batch{}, ctx.Err()
		}
	}
}

// Pause implements stream.Member.
func (s *member) Pause(partitions ...stream.Partition) { s.setPaused(partitions, true) }

// Resume implements stream.Member.
func (s *member) Resume(partitions ...stream.Partition) { s.setPaused(partitions, false) }

// Wake implements stream.Member.
func (s *member) Wake() { signal(s.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
