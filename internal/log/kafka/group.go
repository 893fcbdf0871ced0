package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// onAssigned is called by the client before it fetches the offsets of added.
func (s *member) onAssigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	s.rejoin(client, added)
	s.mu.Lock()
	for topic, indexes := range added {
		for _, index := range indexes {
			s.share(stream.Partition{Topic: topic, Index: index})
		}
	}
	s.mu.Unlock()
	if len(added) > 0 {
		select {
		case <-s.alone:
			s.awaitStable(added)
		case <-s.ctx.Done():
		}
	}
}

// joins is called before the client joins the group, also again. One that was
// silent for too long, and hears that it was removed when a rebalance has it join
// again, does so under a new id at once and tells nobody:
//
//  1. The group removes the member and gives a partition of it to another.
//  2. The other restores the state, and commits.
//  3. The client joins again, claims what it had, and is a member whose commits
//     the broker takes: of a partition that it is yet to give up, or that it has
//     again where the other is gone, with a state that lacks what was committed.
//
// So who has partitions and no id any more is at its end.
func (s *member) joins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, _ := s.client.GroupMetadata(); id == "" && len(s.shares) > 0 {
		s.endLocked(stream.ErrFenced)
	}
}

// share returns the share of p, or makes it. Its caller holds mu.
func (s *member) share(p stream.Partition) *share {
	sh := s.find(p)
	if sh == nil && s.err == nil {
		sh = &share{partition: p, cancel: func() {}, released: make(chan struct{})}
		s.shares = append(s.shares, sh)
	}
	return sh
}

// onOffsets is called by the client with the committed offsets of partitions,
// before it reads them. The states are restored beside it, while the client
// holds still. Where a rebalance comes before the client has read them it is
// called again.
func (s *member) onOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range offsets {
		for index, offset := range partitions {
			p := stream.Partition{Topic: topic, Index: index}
			next := offset.EpochOffset().Offset
			never := next < 0
			if never {
				var err error
				if next, err = s.log.reads.listOffset(ctx, p, earliest); err != nil {
					return nil, err
				}
			}
			from := next
			if s.log.keys.deletedOnce(topic) { // the records before its first are gone on purpose
				first, err := s.log.reads.listOffset(ctx, p, earliest)
				if err != nil {
					return nil, err
				}
				from = max(next, first)
			}
			partitions[index] = kgo.NewOffset().At(from)
			s.receive(p, next, never)
		}
	}
	return offsets, nil
}

// receive restores the state of a share; never says that nothing was committed.
func (s *member) receive(p stream.Partition, next int64, never bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.share(p)
	if sh == nil || sh.begun {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	sh.begun, sh.next, sh.cancel = true, next, cancel
	s.hold(true, p)
	s.work.Go(func() {
		defer cancel()
		err := s.restore(ctx, sh, never)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.endLocked(fmt.Errorf("restore the state of group %q beside %v: %w", s.group, p, err))
		default:
			sh.restored = true
			s.hold(false, p)
			signal(s.ready)
		}
	})
}

// restore reads the changelog on from where the local copy is, up to its end:
// the offset is that of the newest transaction (the client asks for a stable
// one), and so must be the position in the changelog.
func (s *member) restore(ctx context.Context, sh *share, never bool) error {
	l := s.log
	p, done, err := l.restores.begin(ctx, s.group, sh.partition)
	if err != nil {
		return err
	}
	defer done()
	copied, err := l.store.local(s.group, sh.partition)
	if err != nil {
		return err
	}
	s.mu.Lock()
	sh.local = copied
	s.mu.Unlock()
	changelog := changelogOf(s.group, sh.partition)
	t, first, end, err := l.reads.bounds(ctx, sh.partition, changelog)
	if err != nil {
		return err
	}
	next, err := copied.take(s, t.id, first, end)
	if err != nil {
		return err
	}
	position, err := s.catchUp(ctx, p, copied, changelog, next, end)
	if err != nil {
		return err
	}
	want := sh.next
	if never {
		want = -1
	}
	if position != want {
		return l.apart(s.group, sh.partition, want, position)
	}
	if !copied.caughtUp(s) {
		return stream.ErrFenced
	}
	return nil
}

// bounds returns the topic of the changelog of p, its first offset and its end,
// asking for all of them at once.
func (r *reads) bounds(ctx context.Context, p, changelog stream.Partition) (t topicInfo, first, end int64, err error) {
	var extentErr error
	var asking sync.WaitGroup
	asking.Go(func() { first, end, extentErr = r.extent(ctx, changelog) })
	t, err = r.log.topics.refresh(ctx, changelog.Topic)
	for tries := 1; passing(err) && ctx.Err() == nil; tries++ {
		if err = r.log.await(ctx, tries, "restore "+changelog.String(), err); err == nil {
			t, err = r.log.topics.refresh(ctx, changelog.Topic)
		}
	}
	asking.Wait()
	if n := int32(len(t.leaders)); err == nil && changelog.Index >= n {
		err = &stream.PartitionsError{Topic: p.Topic, Partitions: p.Index + 1, State: n}
	}
	return t, first, end, cmp.Or(err, extentErr)
}

// onRevoked is called by the client before it gives up partitions, which waits
// until it returns.
func (s *member) onRevoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	s.mu.Lock()
	began := time.Now()
	var waiting []*share
	for _, sh := range slices.Clone(s.shares) {
		if !slices.Contains(lost[sh.partition.Topic], sh.partition.Index) {
			continue
		}
		sh.revoked = true
		sh.cancel()
		if !sh.given {
			s.release(sh)
			continue
		}
		waiting = append(waiting, sh)
	}
	s.mu.Unlock()
	signal(s.ready)
	for _, sh := range waiting {
		for isOpen(sh.released) {
			patience := s.patience(began)
			if patience <= 0 {
				s.end(stream.ErrFenced)
				return
			}
			timer := time.NewTimer(patience)
			select {
			case <-sh.released:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

func isOpen(c chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// patience is how long the group waits for a member that was last in Poll when
// it was, and that was asked to give up partitions at began.
func (s *member) patience(began time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	timeout := s.log.opts.RebalanceTimeout
	if s.polling {
		return timeout
	}
	if s.seen.After(began) {
		began = s.seen
	}
	return timeout - time.Since(began)
}

// release makes a share nobody's. Its caller holds mu.
func (s *member) release(sh *share) {
	sh.cancel()
	if sh.local != nil {
		sh.local.leave(s)
	}
	if sh.begun {
		s.hold(false, sh.partition)
	}
	s.shares = slices.DeleteFunc(s.shares, func(other *share) bool { return other == sh })
	sh.queue, sh.taken = nil, 0
	signal(s.room) // the reader may wait for what nobody will take
	close(sh.released)
}
