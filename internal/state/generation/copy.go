package generation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// ErrRuns means that a state cannot be copied while other processes use it.
var ErrRuns = errors.New("other processes run that generation: stop them while its state is copied")

const (
	ownWait   = 15 * time.Second // wait for all partitions of a group; longer than dead processes keep theirs
	copyBytes = 1 << 20          // limit for a transaction
)

// Copied reports whether a generation has its initial state.
func Copied(ctx context.Context, log Log, pipeline string, begun Begun) (bool, error) {
	for index, start := range begun.Start {
		p := stream.Partition{Topic: begun.Input, Index: int32(index)}
		done, err := itself(log).Committed(ctx, Group(pipeline, begun.Generation), p)
		if err != nil || done < start {
			return false, err
		}
	}
	return true, nil
}

// Copy copies the state of group Begun.State to a generation. That state must be at the offsets
// Begun.Start and have no queued events. Copy leaves out the answers of the journal.
//
//  1. A member of that group reads the state of a partition. It then commits a
//     transaction without changes, which fails if another member has joined in
//     between. So the state is consistent and as of Start.
//  2. The state is written by transactions that move no offset. Only the last one
//     moves to Start. So if Copy is interrupted, it can write the same entries
//     again.
func Copy(ctx context.Context, log Log, pipeline string, begun Begun) (err error) {
	if done, err := Copied(ctx, log, pipeline, begun); err != nil || done {
		return err
	}
	var from, to owner
	for _, o := range []struct {
		*owner
		group string
	}{{&from, begun.State}, {&to, Group(pipeline, begun.Generation)}} {
		if err := o.join(ctx, itself(log), o.group, begun.Input, len(begun.Start)); err != nil {
			return fmt.Errorf("take the partitions of group %q: %w", o.group, errors.Join(err, from.close()))
		}
	}
	defer func() { err = errors.Join(err, from.close(), to.close()) }()
	for index, start := range begun.Start {
		p := stream.Partition{Topic: begun.Input, Index: int32(index)}
		if to.parts[p].Next >= start {
			continue
		}
		if at := from.parts[p].Next; at != start {
			return fmt.Errorf("the state of group %q beside %v has moved to offset %d, from %d: run the same command again", begun.State, p, at, start)
		}
		if err := begun.copy(ctx, &from, &to, p); err != nil {
			return fmt.Errorf("copy the state of group %q beside %v: %w", begun.State, p, err)
		}
	}
	return nil
}

// copy copies the state of a partition.
func (b *Begun) copy(ctx context.Context, from, to *owner, p stream.Partition) error {
	source := from.parts[p]
	step, size := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{p: to.parts[p].Next}}, 0
	for e, err := range b.Seed(source.State) {
		if err != nil {
			return err
		}
		step.Changes = append(step.Changes, stream.Change{Partition: p, Key: e.Key, Value: e.Value})
		if size += len(e.Key) + len(e.Value); size >= copyBytes {
			if err := to.member.Commit(step).Wait(ctx); err != nil {
				return err
			}
			step.Changes, size = nil, 0
		}
	}
	still := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{p: source.Next}}
	if err := from.member.Commit(still).Wait(ctx); err != nil {
		return fmt.Errorf("%w (%w)", ErrRuns, err)
	}
	step.Offsets = still.Offsets
	return to.member.Commit(step).Wait(ctx)
}

// Seed yields the initial entries of a copied state: all entries except journal answers, with the
// number of the generation.
func (b *Begun) Seed(of stream.View) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		for e, err := range of.Scan(nil) {
			if err != nil {
				yield(e, err)
				return
			}
			switch e.Key[0] {
			case statekey.Journal, statekey.JournalHead:
				continue
			case statekey.Queued:
				err = ErrQueued
			case statekey.Generation:
				e.Value, err = reseed(e.Value, b.Generation)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// owner is the only member of a group.
type owner struct {
	member stream.Member
	parts  map[stream.Partition]stream.Assigned
}

// join joins a group and waits until it owns n partitions of a topic.
func (o *owner) join(ctx context.Context, log Log, group, topic string, n int) (err error) {
	if o.member, err = log.Join(ctx, group, topic); err != nil {
		return err
	}
	o.parts = map[stream.Partition]stream.Assigned{}
	for begun := time.Now(); len(o.parts) < n; {
		if time.Since(begun) > ownWait {
			return errors.Join(ErrRuns, o.close())
		}
		batch, err := pollShortly(ctx, o.member)
		if err != nil {
			return errors.Join(err, o.close())
		}
		for _, p := range batch.Revoked {
			delete(o.parts, p)
		}
		for _, a := range batch.Assigned {
			o.member.Pause(a.Partition)
			o.parts[a.Partition] = a
		}
	}
	return nil
}

func (o *owner) close() error {
	if o.member == nil {
		return nil
	}
	s := o.member
	o.member = nil
	return s.Close()
}

// pollShortly polls a member for a short time. The caller pauses the partitions.
func pollShortly(ctx context.Context, s stream.Member) (stream.Batch, error) {
	short, cancel := context.WithTimeout(ctx, waitMost)
	defer cancel()
	batch, err := s.Poll(short, 1)
	if err != nil && short.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return batch, err
}
