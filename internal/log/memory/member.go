package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/log/balance"
	"github.com/afterbay/afterbay/stream"
)

// group holds the committed offsets of a group and its members.
//
// A membership change sets the target of every share. The shares then move when members call Poll:
//
//  1. The owner's Poll returns the share as Revoked. The owner keeps it.
//  2. The owner's next Poll gives it up.
//  3. The target's next Poll owns it, from the committed offset on.
//
// If a target waits for an owner longer than the rebalance timeout, it removes the owner from the
// group. So a share has at most one owner, and only its owner commits it.
type group struct {
	log           *Log
	all           map[stream.Partition]*share
	everCommitted bool

	topics  []string  // topics of the members; sorted
	shares  []*share  // shares of topics, in order
	members []*member // in the order of joining
	settled bool      // every share is owned by its target
}

// share is the assignment of one partition in a group.
type share struct {
	partition stream.Partition
	committed stream.Offset
	state     State

	owner   *member   // member that may read and commit it; nil if it has no owner
	target  *member   // member that should own it
	wanted  time.Time // since when the target differs from the owner; zero if it does not
	revoked bool      // the owner was told to give it up
	paused  bool
	next    stream.Offset // offset that the owner's Poll returns next
}

// member is a stream.Member.
type member struct {
	log   *Log
	group *group
	wake  chan struct{} // one token: Poll returns early

	shares []*share  // owned
	turn   int       // index into shares at which the next Poll starts
	seen   time.Time // time of the last check in Poll; a change of shares triggers one
	err    error     // why the member is unusable
}

func (l *Log) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{log: l, all: map[stream.Partition]*share{}, settled: true}
		l.groups[name] = g
	}
	return g
}

func (g *group) share(p stream.Partition) *share {
	sh := g.all[p]
	if sh == nil {
		sh = &share{partition: p, state: map[string][]byte{}}
		g.all[p] = sh
	}
	return sh
}

// Join implements stream.Log. It rejects a member that names other topics than the existing
// members.
func (l *Log) Join(_ context.Context, name string, topics ...string) (stream.Member, error) {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, stream.ErrClosed
	}
	for _, t := range topics {
		if l.topic(t) == nil {
			return nil, fmt.Errorf("join %q: topic %q: %w", name, t, stream.ErrUnknownTopic)
		}
	}
	g := l.group(name)
	if len(g.members) > 0 && !slices.Equal(g.topics, topics) {
		return nil, fmt.Errorf("join %q: its members read %s, not %s", name, strings.Join(g.topics, ", "), strings.Join(topics, ", "))
	}
	if len(g.members) == 0 {
		g.topics, g.shares = topics, nil
		for _, t := range topics {
			for i := range l.topics[t].Partitions {
				g.shares = append(g.shares, g.share(stream.Partition{Topic: t, Index: i}))
			}
		}
	}
	s := &member{log: l, group: g, wake: make(chan struct{}, 1), seen: time.Now()}
	g.members = append(g.members, s)
	g.rebalance()
	return s, nil
}

// remove removes a member and frees its shares at once.
func (g *group) remove(s *member, err error) {
	s.err = err
	for _, sh := range s.shares {
		sh.owner, sh.revoked = nil, false
	}
	s.shares = nil
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m == s })
	g.rebalance()
}

// rebalance sets the targets of all shares.
func (g *group) rebalance() {
	owners := make([]int, len(g.shares))
	for i, sh := range g.shares {
		owners[i] = slices.Index(g.members, sh.owner)
	}
	now := time.Now()
	for i, member := range balance.Targets(owners, len(g.members)) {
		sh := g.shares[i]
		if sh.target = nil; member >= 0 {
			sh.target = g.members[member]
		}
		if sh.owner == nil || sh.owner == sh.target {
			sh.wanted = time.Time{}
		} else if sh.wanted.IsZero() {
			sh.wanted = now
		}
	}
	g.settled = false
	g.log.notify()
}

// Poll implements stream.Member.
func (s *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	woken := false
	select {
	case <-s.wake:
		woken = true
	default:
	}
	for {
		batch, changed, err := s.take(limit, woken)
		if changed == nil {
			return batch, err
		}
		select {
		case <-changed:
		case <-s.wake:
			woken = true
		case <-s.overdue():
		case <-ctx.Done():
			return stream.Batch{}, ctx.Err()
		}
	}
}

// take returns the next batch, or a channel that is closed when the caller must look again.
func (s *member) take(limit int, woken bool) (stream.Batch, <-chan struct{}, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err != nil {
		return stream.Batch{}, nil, fmt.Errorf("poll: %w", s.err)
	}
	s.seen = time.Now()
	var batch stream.Batch
	if !s.group.settled {
		s.settle(&batch)
	}
	s.fetch(&batch, limit)
	if woken || len(batch.Revoked)+len(batch.Assigned)+len(batch.Records) > 0 {
		return batch, nil, nil
	}
	return batch, s.log.changes(), nil
}

// settle moves shares to and from s.
func (s *member) settle(batch *stream.Batch) {
	g := s.group
	for _, sh := range g.shares {
		if sh.target == s && sh.overdue() <= 0 {
			g.remove(sh.owner, stream.ErrFenced)
		}
	}
	for _, sh := range g.shares {
		if sh.owner == s && sh.revoked {
			s.giveUp(sh)
		}
		switch {
		case sh.owner == s && sh.target != s:
			sh.revoked = true
			batch.Revoked = append(batch.Revoked, sh.partition)
		case sh.owner == nil && sh.target == s:
			sh.owner, sh.paused = s, false
			sh.next = max(sh.committed, s.log.topics[sh.partition.Topic].partitions[sh.partition.Index].base)
			s.shares = append(s.shares, sh)
			batch.Assigned = append(batch.Assigned, stream.Assigned{
				Partition: sh.partition,
				Next:      sh.next,
				State:     &view{log: s.log, share: sh, reader: s},
			})
		}
	}
	g.settled = !slices.ContainsFunc(g.shares, func(sh *share) bool { return sh.owner != sh.target || sh.revoked })
}

func (s *member) giveUp(sh *share) {
	sh.owner, sh.revoked, sh.wanted = nil, false, time.Time{}
	s.shares = slices.DeleteFunc(s.shares, func(other *share) bool { return other == sh })
	s.log.notify()
}

const never time.Duration = 1<<63 - 1

// overdue returns how long the owner may still keep a share with another target.
func (sh *share) overdue() time.Duration {
	if sh.wanted.IsZero() {
		return never
	}
	since := sh.wanted
	if sh.owner.seen.After(since) {
		since = sh.owner.seen
	}
	return sh.owner.log.options.RebalanceTimeout - time.Since(since)
}

// overdue returns a channel that fires when an owner has kept s waiting too long.
func (s *member) overdue() <-chan time.Time {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	soonest := never
	if !s.group.settled {
		for _, sh := range s.group.shares {
			if sh.target == s {
				soonest = min(soonest, sh.overdue())
			}
		}
	}
	if soonest == never {
		return nil
	}
	return time.After(soonest)
}

// fetch adds records to batch. Each call starts with another share.
func (s *member) fetch(batch *stream.Batch, limit int) {
	if len(s.shares) == 0 {
		return
	}
	s.turn = (s.turn + 1) % len(s.shares)
	for i := range s.shares {
		sh := s.shares[(s.turn+i)%len(s.shares)]
		if sh.paused || sh.revoked {
			continue
		}
		records := s.log.topics[sh.partition.Topic].partitions[sh.partition.Index].from(sh.next) // a transaction may have committed an offset after the end
		records = records[:max(0, min(len(records), limit-len(batch.Records)))]
		batch.Records = append(batch.Records, records...)
		if n := len(records); n > 0 {
			sh.next = records[n-1].Offset + 1
		}
	}
}

// Seek implements stream.Seeker.
func (s *member) Seek(p stream.Partition, next stream.Offset) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, sh := range s.shares {
		if sh.partition == p {
			sh.next = max(sh.next, next)
		}
	}
}

// Pause implements stream.Member.
func (s *member) Pause(partitions ...stream.Partition) { s.setPaused(partitions, true) }

// Resume implements stream.Member.
func (s *member) Resume(partitions ...stream.Partition) { s.setPaused(partitions, false) }

func (s *member) setPaused(partitions []stream.Partition, paused bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, sh := range s.shares {
		if slices.Contains(partitions, sh.partition) {
			sh.paused = paused
		}
	}
}

// Commit implements stream.Member. The commit is decided when Commit returns.
func (s *member) Commit(step stream.Transaction) *stream.Pending {
	pending := stream.NewPending()
	pending.Decide(s.commit(step))
	s.Wake() // a decided commit ends a Poll
	return pending
}

func (s *member) commit(step stream.Transaction) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("commit: %w", s.err)
	}
	if err := s.check(step); err != nil {
		s.group.remove(s, stream.ErrFenced)
		return fmt.Errorf("commit: %w", err)
	}
	s.log.write(slices.Clone(step.Outputs), atEnd)
	for _, c := range step.Changes {
		s.group.all[c.Partition].state.Apply(c)
	}
	for p, next := range step.Offsets {
		s.group.all[p].committed = next
	}
	s.group.everCommitted = true
	return nil
}

// check returns an error if step cannot be committed.
func (s *member) check(step stream.Transaction) error {
	for p := range step.Offsets {
		if sh := s.group.all[p]; sh == nil || sh.owner != s {
			return fmt.Errorf("%v: %w", p, stream.ErrFenced)
		}
	}
	for _, c := range step.Changes {
		if _, touched := step.Offsets[c.Partition]; !touched {
			panic(fmt.Sprintf("memory: a step changes state beside %v without its offset", c.Partition))
		}
	}
	return s.log.check(step.Outputs)
}

// Wake implements stream.Member.
func (s *member) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close implements stream.Member.
func (s *member) Close() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err == nil {
		s.group.remove(s, stream.ErrClosed)
	}
	return nil
}
