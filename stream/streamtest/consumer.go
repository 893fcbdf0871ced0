package streamtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// consume runs one member after another until ctx is done.
func (s *simulation) consume(ctx context.Context, rng *rand.Rand) error {
	for ctx.Err() == nil {
		member, err := s.faulty.Join(ctx, simulationGroup, simulationInput)
		if err != nil {
			return unlessDone(ctx, err)
		}
		if early, ok := member.(stream.EarlyReader); ok {
			early.ReadEarly(rng.IntN(4) > 0)
		}
		c := &consumer{member: member, deliver: s.Repeats, rng: rng, owned: map[stream.Partition]*input{}, step: newWork()}
		err = c.run(ctx)
		if closeErr := member.Close(); closeErr != nil {
			return closeErr
		}
		if !errors.Is(err, stream.ErrFenced) {
			if err := unlessDone(ctx, err); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond))))
	}
	return nil
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// consumer runs one member: poll, number the events of each key, commit. It computes the next
// transaction while the previous one is being committed. If that commit fails, both are discarded
// with the consumer.
type consumer struct {
	member  stream.Member
	deliver bool // deliver outputs as soon as they are produced
	rng     *rand.Rand
	owned   map[stream.Partition]*input
	revoked []stream.Partition // by the last Poll

	step        *work // being computed
	outstanding *work // being committed; nil if no commit is outstanding
	pending     *stream.Pending
}

// input is a partition that the consumer owns.
type input struct {
	state  stream.View
	next   stream.Offset
	paused bool
}

// work is a transaction and the counts that result from it.
type work struct {
	stream.Transaction
	counts map[stream.Partition]map[string]int
}

func newWork() *work {
	return &work{Transaction: stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}, counts: map[stream.Partition]map[string]int{}}
}

func (c *consumer) chance(percent int) bool { return c.rng.IntN(100) < percent }

// run returns nil if the consumer decided to leave.
func (c *consumer) run(ctx context.Context) error {
	for {
		if c.chance(2) {
			if c.chance(50) {
				return nil // with uncommitted work and perhaps a commit in progress
			}
			return c.finish(ctx)
		}
		batch, idle, err := c.poll(ctx)
		if err != nil {
			return err
		}
		if err := c.take(batch); err != nil {
			return err
		}
		switch {
		case len(batch.Revoked) > 0:
			err = c.commit(ctx)
		case idle:
			c.resume()
			err = c.finish(ctx)
		case c.chance(50) && (c.outstanding == nil || isDone(c.pending)):
			err = c.commit(ctx)
		}
		if err != nil {
			return err
		}
		c.pauseOne()
	}
}

// poll also reports whether no records arrived before its deadline.
func (c *consumer) poll(ctx context.Context) (stream.Batch, bool, error) {
	for _, p := range c.revoked {
		delete(c.owned, p)
		if c.outstanding != nil {
			// If p is revoked, processed by another member and assigned again, the counts of the
			// outstanding transaction are outdated.
			delete(c.outstanding.counts, p)
		}
	}
	short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
	defer cancel()
	batch, err := c.member.Poll(short, 1+c.rng.IntN(40))
	c.revoked = batch.Revoked
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return stream.Batch{}, true, nil
	}
	return batch, false, err
}

func (c *consumer) take(batch stream.Batch) error {
	for _, a := range batch.Assigned {
		if c.owned[a.Partition] != nil {
			return fmt.Errorf("%v was assigned to its owner", a.Partition)
		}
		if err := caughtUp(a); err != nil {
			return err
		}
		c.owned[a.Partition] = &input{state: a.State, next: a.Next}
	}
	for _, p := range batch.Revoked {
		if c.owned[p] == nil {
			return fmt.Errorf("%v was revoked from another than its owner", p)
		}
	}
	for _, r := range batch.Records {
		if err := c.number(r); err != nil {
			return err
		}
	}
	if d, ok := c.member.(stream.Deliverer); ok && c.deliver {
		d.Deliver(c.step.Outputs)
	}
	return nil
}

// number increments the count of r's key and outputs it.
func (c *consumer) number(r stream.Record) error {
	in := c.owned[r.Partition]
	if in == nil || in.paused || r.Offset != in.next {
		return fmt.Errorf("poll returned %v at %d, the consumer has %+v", r.Partition, r.Offset, in)
	}
	in.next++
	count, err := c.count(r.Partition, string(r.Key))
	if err != nil {
		return err
	}
	count++
	if c.step.counts[r.Partition] == nil {
		c.step.counts[r.Partition] = map[string]int{}
	}
	c.step.counts[r.Partition][string(r.Key)] = count
	c.put(r.Partition, string(r.Key), count)
	c.put(r.Partition, positionKey, int(in.next))
	out := stream.Partition{Topic: simulationOutput, Index: r.Partition.Index}
	if c.chance(50) {
		out.Index = stream.ByKey // same partition as by index
	}
	c.step.Outputs = append(c.step.Outputs, stream.Record{
		Partition: out, Time: r.Time, Key: r.Key, Value: []byte(numbered(string(r.Value), count)),
	})
	return nil
}

// count returns the count of key, including transactions that are not committed yet.
func (c *consumer) count(p stream.Partition, key string) (int, error) {
	if n, ok := c.step.counts[p][key]; ok {
		return n, nil
	}
	if c.outstanding != nil {
		if n, ok := c.outstanding.counts[p][key]; ok {
			return n, nil
		}
	}
	value, err := c.owned[p].state.Get([]byte(key))
	if err != nil || value == nil {
		return 0, err
	}
	return strconv.Atoi(string(value))
}

func (c *consumer) put(p stream.Partition, key string, n int) {
	c.step.Changes = append(c.step.Changes, stream.Change{Partition: p, Key: []byte(key), Value: strconv.AppendInt(nil, int64(n), 10)})
	c.step.Offsets[p] = c.owned[p].next
}

// commit waits for the previous commit, then commits the current transaction. Now and then it adds
// a partition that did not move.
func (c *consumer) commit(ctx context.Context) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	for _, p := range c.partitions() {
		if next := c.owned[p].next; next > 0 && c.chance(10) {
			c.put(p, positionKey, int(next))
		}
	}
	if len(c.step.Offsets) > 0 {
		c.outstanding, c.step = c.step, newWork()
		c.pending = c.member.Commit(c.outstanding.Transaction)
	}
	return nil
}

func (c *consumer) wait(ctx context.Context) error {
	if c.outstanding == nil {
		return nil
	}
	c.outstanding = nil
	return c.pending.Wait(ctx)
}

// finish commits all work and waits for it.
func (c *consumer) finish(ctx context.Context) error {
	if err := c.commit(ctx); err != nil {
		return err
	}
	return c.wait(ctx)
}

func (c *consumer) pauseOne() {
	if partitions := c.partitions(); len(partitions) > 0 && c.chance(5) {
		p := partitions[c.rng.IntN(len(partitions))]
		c.member.Pause(p)
		c.owned[p].paused = true
	}
}

// partitions returns the owned partitions in a fixed order, so that a seed is repeatable.
func (c *consumer) partitions() []stream.Partition {
	return slices.SortedFunc(maps.Keys(c.owned), func(a, b stream.Partition) int { return cmp.Compare(a.Index, b.Index) })
}

func (c *consumer) resume() {
	for p, in := range c.owned {
		c.member.Resume(p)
		in.paused = false
	}
}
