package generation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Begin records a new generation. It creates the topic for this record, with the partitions of the
// pipeline's input. It returns false if another caller recorded one with the same number before:
// then that generation has the number.
func Begin(ctx context.Context, log Log, pipeline string, partitions int32, begun Begun) (first bool, err error) {
	log = itself(log)
	if err := log.CreateTopic(ctx, stream.Topic{Name: Topic(pipeline), Partitions: partitions}); err != nil {
		return false, err
	}
	begun.Time, begun.Token = time.Now().UTC(), rand.Text()
	if err := log.Append(ctx, entry{Begun: &begun}.record(stream.Partition{Topic: Topic(pipeline)})); err != nil {
		return false, err
	}
	for { // on Kafka, a transaction that is in flight hides the record for a moment
		h, err := Read(ctx, log, pipeline)
		if err != nil {
			return false, err
		}
		if b, found := h.Find(begun.Generation); found {
			return b.Token == begun.Token, nil
		}
		select {
		case <-time.After(waitMost):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// HandOver gives the partitions of the live group to a generation, as this member gets them, until
// all are given. It calls given for each. A transaction of the live group that moves no offset
// records the first offset of the generation. After it, no member of the live group may continue in
// that partition. HandOver does not give partitions with queued events: the process with the live
// group must finish them.
func HandOver(ctx context.Context, log Log, pipeline, topic string, begun Begun, given func(Live)) error {
	log = itself(log)
	h, err := Read(ctx, log, pipeline)
	if err == nil && h.Current() > begun.Generation {
		err = fmt.Errorf("generation %d is live, which is newer: reprocess again", h.Current())
	}
	for err == nil && !h.Everywhere(begun.Generation) {
		giver := &giver{log: log, pipeline: pipeline, begun: begun, given: given, missing: h.missing(begun.Generation)}
		if err = giver.member(ctx, topic); errors.Is(err, stream.ErrFenced) {
			err = nil
		}
		if err == nil {
			h, err = Read(ctx, log, pipeline)
		}
	}
	if err != nil {
		return fmt.Errorf("hand pipeline %q over to generation %d: %w", pipeline, begun.Generation, err)
	}
	return nil
}

// ErrQueued means that a partition with queued events cannot be handed over.
var ErrQueued = errors.New("the live generation has queued events: run its file until afterbay queue ls is empty, or drop the events")

// ErrChanged means that the live generation is not the one that was reprocessed.
var ErrChanged = errors.New("the pipeline was changed since the generation began: reprocess again")

// giver is a member of the live group that gives its partitions away.
type giver struct {
	log      Log
	pipeline string
	begun    Begun
	given    func(Live)
	missing  map[int32]bool // partitions that are not given yet
}

const missingEvery = time.Second

// member joins and gives the partitions that it gets, until none is missing. Other members may give
// theirs.
func (g *giver) member(ctx context.Context, topic string) (err error) {
	s, err := g.log.Join(ctx, g.begun.Group, topic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for looked := time.Now(); len(g.missing) > 0; {
		batch, err := pollShortly(ctx, s)
		if err != nil {
			return err
		}
		for _, a := range batch.Assigned {
			s.Pause(a.Partition)
		}
		if err := g.give(ctx, s, batch.Assigned); err != nil {
			return err
		}
		if time.Since(looked) < missingEvery {
			continue
		}
		looked = time.Now()
		h, err := Read(ctx, g.log, g.pipeline)
		if err != nil {
			return err
		}
		g.missing = h.missing(g.begun.Generation)
	}
	return nil
}

// give gives partitions of this member in one transaction.
func (g *giver) give(ctx context.Context, s stream.Member, assigned []stream.Assigned) error {
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	var lives []Live
	for _, a := range assigned {
		if !g.missing[a.Partition.Index] {
			continue
		}
		switch n, _, err := Stored(a.State); {
		case err != nil:
			return fmt.Errorf("generation of %v: %w", a.Partition, err)
		case n >= g.begun.Generation:
			return fmt.Errorf("%v is of generation %d by now: %w", a.Partition, n, ErrChanged)
		}
		for _, err := range a.State.Scan([]byte{statekey.Queued}) {
			if err == nil {
				err = fmt.Errorf("%v: %w", a.Partition, ErrQueued)
			}
			return err
		}
		at := a.Next
		if Numbered(a.Partition.Topic) {
			var err error
			if at, err = released(a.State); err != nil {
				return fmt.Errorf("read the released offset of %v: %w", a.Partition, err)
			}
		}
		live := Live{Generation: g.begun.Generation, Partition: a.Partition.Index, Offset: at, Time: time.Now().UTC().Truncate(time.Microsecond)}
		step.Offsets[a.Partition] = a.Next
		step.Changes = append(step.Changes, stream.Change{Partition: a.Partition, Key: []byte{statekey.Generation}, Value: handedOver(Group(g.pipeline, g.begun.Generation))})
		step.Outputs = append(step.Outputs, entry{Live: &live}.record(stream.Partition{Topic: Topic(g.pipeline), Index: a.Partition.Index}))
		lives = append(lives, live)
	}
	if len(lives) == 0 {
		return nil
	}
	if err := s.Commit(step).Wait(ctx); err != nil {
		return err
	}
	for _, l := range lives {
		delete(g.missing, l.Partition)
		g.given(l)
	}
	return nil
}
