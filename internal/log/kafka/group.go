package kafka

import (
	"context"
	"fmt"
	"slices"
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
		if (err != nil || ctx.Err() != nil) && sh.local != nil {
			sh.local.leave(sh) // it may have taken the copy after its release
		}
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
