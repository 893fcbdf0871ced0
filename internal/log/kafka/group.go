package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// onAssigned is a callback of the client. The client calls it before it fetches the offsets of
// added.
func (s *member) onAssigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	s.rejoin(client, added)
	s.shares.assign(added)
	if len(added) > 0 {
		select {
		case <-s.alone:
			if req := s.log.offsets.await(s.life.ctx, s.group, added); req != nil {
				s.run(func() error { return s.log.offsets.watch(s.life.ctx, s.group, req) })
			}
		case <-s.life.ctx.Done():
		}
	}
}

// joins is called before the client joins the group, also for a repeated join. It must end a member
// that was silent for too long. Such a client learns during a rebalance that it was removed. It
// then joins at once under a new id and reports nothing:
//
//  1. The group removes the member and gives one of its partitions to another.
//  2. The new owner restores the state, and commits.
//  3. The client joins again and claims its old partitions. The broker then
//     accepts its commits of a partition that it has yet to give up, or that it
//     got back after the new owner left. Its state lacks the new owner's commits.
//
// So a member that has partitions but no id must end.
func (s *member) joins() {
	if id, _ := s.client.GroupMetadata(); id == "" && s.shares.any() {
		s.end(stream.ErrFenced)
	}
}

// onOffsets is a callback of the client with the committed offsets of partitions, before it reads
// them. Their states are restored in the background, and the client does not read them until then.
// If a rebalance happens before the client has read them, the client calls onOffsets again.
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
			if s.log.keys.deletedOnce(topic) { // records before the first one were deleted on purpose
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

// receive restores the state of a share. never means that the group has no committed offset.
func (s *member) receive(p stream.Partition, next int64, never bool) {
	ctx, sh := s.shares.restore(s.life.ctx, p, next)
	if sh == nil {
		return
	}
	committed := next
	if never {
		committed = -1
	}
	s.run(func() error {
		copied, err := s.log.restores.restore(ctx, s.commits, sh, committed)
		switch {
		case err == nil:
			s.shares.restored(ctx, sh, copied)
		case ctx.Err() == nil:
			return fmt.Errorf("restore the state of group %q beside %v: %w", s.group, p, err)
		}
		return nil
	})
}

// onRevoked is a callback of the client before it gives up partitions. The client waits until it
// returns.
func (s *member) onRevoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	began := time.Now()
	waiting := s.shares.revoke(lost)
	for _, sh := range waiting {
		for isOpen(sh.released) {
			patience := s.shares.patience(began, s.log.opts.Timeouts.Rebalance)
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
