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

// ErrRuns says that a state cannot be copied.
var ErrRuns = errors.New("other processes run that generation: stop them while its state is copied")

const (
	ownWait   = 15 * time.Second // for all partitions of a group; longer than processes that died keep theirs
	copyBytes = 1 << 20          // of a step
)

// Copied reports whether a generation has the state that it begins with.
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

// Copy gives a generation the state of group Begun.State, which is at the offsets
// Begun.Start and has nothing queued. Answers of its journal are not copied.
//
//  1. The state of a partition is read by a member of that group, which then commits a
//     step that changes nothing: that fails where another member came in between. So
//     what was read is of one moment, and of Start.
//  2. Steps that move nothing write it; only the last moves to Start. So where Copy
//     ended early the same entries are written again.
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
			return fmt.Errorf("the state of group %q beside %v is of offset %d by now, not %d: the same command begins anew", begun.State, p, at, start)
		}
		if err := begun.copy(ctx, &from, &to, p); err != nil {
			return fmt.Errorf("copy the state of group %q beside %v: %w", begun.State, p, err)
		}
	}
	return nil
}

// copy copies the state beside a partition.
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

// Seed yields what a state begins with that is a copy of another one: all but what is
// known of answers, with the number of the generation.
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

// join becomes the owner of n partitions of a topic.
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

// pollShortly polls a member whose partitions are to be paused.
func pollShortly(ctx context.Context, s stream.Member) (stream.Batch, error) {
	short, cancel := context.WithTimeout(ctx, waitMost)
	defer cancel()
	batch, err := s.Poll(short, 1)
	if err != nil && short.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return batch, err
}
