package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/log/balance"
	"github.com/afterbay/afterbay/stream"
)

// group holds the committed offsets of a group and its members. Log.mu guards it.
//
// A membership change sets the target of every share. The shares then move when members call Poll:
//
//  1. The owner's Poll returns the share as Revoked. The owner keeps it.
//  2. The owner's next Poll gives it up, once it has no outstanding commit.
//  3. The target's next Poll owns it, from the committed offset on.
//
// If a target waits for an owner longer than the rebalance timeout, it removes the owner from the
// group. A share with a transaction in the frame being written gets no new owner, even if its owner
// was removed.
type group struct {
	log           *Log
	name          string
	all           map[*partition]*share
	everCommitted bool

	topics  []string  // topics of the members; sorted
	shares  []*share  // shares of topics, in order
	members []*member // in the order of joining
	settled bool      // every share is owned by its target
}

// share is the assignment of one partition in a group.
type share struct {
	part      *partition
	committed stream.Offset

	owner   *member   // member that may read and commit it; nil if it has no owner
	target  *member   // member that should own it
	wanted  time.Time // since when the target differs from the owner; zero if it does not
	revoked bool      // the owner was told to give it up
	writing bool      // the frame being written has a transaction with it
	paused  bool
	cursor  *cursor // of the owner
}

// group returns the group called name and creates it if needed. The caller must hold mu.
func (l *Log) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{log: l, name: name, all: map[*partition]*share{}, settled: true}
		l.groups[name] = g
	}
	return g
}

// share returns the share of p. It creates shares for the whole topic: a group that reads one
// partition of a topic delays retention of all.
func (g *group) share(p *partition) *share {
	if sh := g.all[p]; sh != nil {
		return sh
	}
	for _, p := range g.log.topics[p.Topic].parts {
		if g.all[p] == nil {
			g.all[p] = &share{part: p}
		}
	}
	return g.all[p]
}

// find returns the share of p, or nil.
func (g *group) find(p stream.Partition) *share {
	part, err := g.log.part(p.Topic, p.Index)
	if err != nil {
		return nil
	}
	return g.all[part]
}

// Join implements stream.Log. It rejects a member that names other topics than the existing
// members.
func (l *Log) Join(_ context.Context, name string, topics ...string) (stream.Member, error) {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, fmt.Errorf("join %q: %w", name, err)
	}
	if name == "" || len(name) > 249 {
		return nil, fmt.Errorf("join %q: its name has %d bytes, want 1 to 249", name, len(name))
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
			for _, p := range l.topics[t].parts {
				g.shares = append(g.shares, g.share(p))
			}
		}
	}
	s := &member{log: l, group: g, wake: make(chan struct{}, 1), ready: make(chan struct{}, 1), seen: time.Now()}
	g.members = append(g.members, s)
	g.rebalance()
	return s, nil
}

// remove removes a member and frees its shares at once.
func (g *group) remove(s *member, err error) {
	if s.err != nil {
		return
	}
	s.err = err
	g.log.awaited.answered(s)
	for len(s.shares) > 0 {
		s.drop(s.shares[0])
	}
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m == s })
	signal(s.ready)
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
	g.notify()
}

// notify makes members that are in a Poll check their shares again.
func (g *group) notify() {
	for _, m := range g.members {
		signal(m.ready)
	}
}

const never time.Duration = 1<<63 - 1

// overdue returns how long the owner may still keep a share with another target.
func (sh *share) overdue() time.Duration {
	if sh.wanted.IsZero() {
		return never
	}
	timeout := sh.owner.log.opts.RebalanceTimeout
	if sh.owner.polling {
		return timeout // counted from the return of its Poll
	}
	since := sh.wanted
	if sh.owner.seen.After(since) {
		since = sh.owner.seen
	}
	return timeout - time.Since(since)
}
