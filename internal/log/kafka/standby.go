package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/afterbay/afterbay/stream"
)

// standby is a copy of the state of another process that a member keeps warm. It reads only
// committed records of the changelog. So a new owner of the partition continues from it as from any
// local copy. Only the goroutine of standbys.run uses it.
//
// It never changes a copy that an owner may change. An owner in the same process takes the copy
// without asking, or still has to release it.
type standby struct {
	partition, changelog stream.Partition
	copied               *local
	topic                [16]byte // id of the changelog topic
	follower             *follower
	failed               int // consecutive failures
	again                time.Time

	behind int64 // records that the copy lacks; -1 if unknown; guarded by the mutex of standbys
}

// standbys holds the standbys of a member. The leader of the group sets them, and run keeps them
// warm. The mutex lets other goroutines read the list and the progress of each. Nothing blocks
// while it is held.
type standbys struct {
	log   *Log
	group string
	moved chan struct{} // one token: wanted has changed

	mu     sync.Mutex // guards the fields below
	wanted map[stream.Partition]*standby
}

func newStandbys(l *Log, group string) *standbys {
	return &standbys{log: l, group: group, moved: make(chan struct{}, 1)}
}

const (
	// standbyPause is the time between two fetches of a changelog. A fetch of some hundred
	// milliseconds of changes costs little more than one of a few.
	standbyPause = 200 * time.Millisecond
	// standbySaid is the number of consecutive failures before a standby logs one. Short failures
	// happen when leaders move.
	standbySaid = 8
)

// set sets the partitions that the member is a standby of.
func (s *standbys) set(d duty) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[stream.Partition]*standby{}
	for topic, indexes := range d {
		for _, index := range indexes {
			p := stream.Partition{Topic: topic, Index: index}
			if keep[p] = s.wanted[p]; keep[p] == nil {
				keep[p] = &standby{partition: p, changelog: changelogOf(s.group, p), behind: -1}
			}
		}
	}
	s.wanted = keep
	signal(s.moved)
}

// run keeps the copies warm until ctx ends. It fetches for each in turn. So only one fetch is in
// memory, and the first read of a large copy does not delay the others.
func (s *standbys) run(ctx context.Context) {
	var known []*standby
	defer func() { leaveAll(known, nil) }()
	pause := time.NewTimer(standbyPause)
	defer pause.Stop()
	for atOnce := true; ctx.Err() == nil; {
		if !atOnce {
			select {
			case <-s.moved:
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
		atOnce = false
		list := s.list()
		leaveAll(known, list)
		known = list
		for _, sb := range list {
			if time.Now().Before(sb.again) {
				continue
			}
			more, err := s.keepWarm(ctx, sb)
			if ctx.Err() != nil {
				return
			}
			s.warmed(sb, err)
			atOnce = atOnce || more
		}
		if len(list) > 0 {
			pause.Reset(standbyPause)
		}
	}
}

// list returns the standbys in order.
func (s *standbys) list() []*standby {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*standby, 0, len(s.wanted))
	for _, sb := range s.wanted {
		list = append(list, sb)
	}
	slices.SortFunc(list, func(a, b *standby) int {
		return cmp.Or(strings.Compare(a.partition.Topic, b.partition.Topic), cmp.Compare(a.partition.Index, b.partition.Index))
	})
	return list
}

// leaveAll releases the standbys of known that are not in list.
func leaveAll(known, list []*standby) {
	for _, sb := range known {
		if sb.copied != nil && !slices.Contains(list, sb) {
			sb.copied.leave(sb)
		}
	}
}

// warmed records the result of keepWarm. Failures are retried with growing delays.
func (s *standbys) warmed(sb *standby, err error) {
	switch {
	case err == nil:
		sb.failed = 0
		return
	case errors.Is(err, errTaken):
		sb.follower = nil
		s.lag(sb, -1)
		return
	}
	sb.follower = nil
	sb.failed++
	sb.again = time.Now().Add(backOff(sb.failed))
	if sb.failed%standbySaid == 0 {
		s.log.opts.Logger.Warn("kafka: a standby copy is not updated: a takeover of the partition will read more of its changelog", "group", s.group, "partition", sb.partition, "error", err)
	}
}

// keepWarm applies the next fetch of the changelog and reports whether there is more. A copy may
// become useless: the changelog was created again, the changelog lost the next records, or the copy
// is so old that deletion markers may be gone. The next take detects this and starts from the
// beginning.
func (s *standbys) keepWarm(ctx context.Context, sb *standby) (more bool, err error) {
	l := s.log
	if sb.follower == nil {
		if err := s.begin(ctx, sb); err != nil {
			return false, err
		}
	}
	if err := l.store.makeRoom(ctx); err != nil {
		return false, err
	}
	moment := time.Now()
	part, err := l.reads.fetchOnce(ctx, sb.changelog, sb.follower.next, 0)
	if t, known := l.topics.partition(ctx, sb.changelog); err == nil && (known != nil || t.id != sb.topic) {
		err = kerr.UnknownTopicID
	}
	if err != nil {
		if _, told := l.topics.refresh(ctx, sb.changelog.Topic); told != nil {
			err = told
		}
		return false, fmt.Errorf("read %v at %d: %w", sb.changelog, sb.follower.next, err)
	}
	if !sb.copied.kept(sb) { // an owner took it, or it is too old
		sb.follower = nil
		return true, nil
	}
	if err := sb.follower.follow(part.Records, part.next); err != nil {
		return false, err
	}
	s.lag(sb, max(0, part.HighWatermark-part.next))
	if more = part.next < part.LastStableOffset; !more {
		sb.copied.seen(sb, moment)
	}
	return more, nil
}

// begin takes the copy if it has no other owner.
func (s *standbys) begin(ctx context.Context, sb *standby) error {
	l := s.log
	var err error
	if sb.copied, err = l.store.local(s.group, sb.partition); err != nil {
		return err
	}
	if sb.copied.others(sb) {
		return errTaken
	}
	t, err := l.topics.refresh(ctx, sb.changelog.Topic)
	if err != nil {
		return err
	}
	first, err := l.reads.listOffsetOnce(ctx, sb.changelog, earliest)
	if err != nil {
		return err
	}
	end, err := l.reads.listOffsetOnce(ctx, sb.changelog, latest)
	if err != nil {
		return err
	}
	next, err := sb.copied.take(sb, t.id, first, end)
	if err != nil {
		return err
	}
	sb.topic, sb.follower = t.id, newFollower(sb, sb.copied, sb.changelog, next)
	return nil
}

// lag records how many changelog records a standby lacks.
func (s *standbys) lag(sb *standby, behind int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb.behind = behind
}

// describe returns the standbys with known progress.
func (s *standbys) describe() (list []stream.Standby) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sb := range s.wanted {
		if sb.behind >= 0 {
			list = append(list, stream.Standby{Group: s.group, Partition: sb.partition, Behind: sb.behind})
		}
	}
	return list
}

// Standbys implements stream.Follower.
func (l *Log) Standbys() []stream.Standby {
	l.mu.Lock()
	all := make([]*standbys, 0, len(l.members))
	for s := range l.members {
		all = append(all, s.standbys)
	}
	l.mu.Unlock()
	var list []stream.Standby
	for _, s := range all {
		list = append(list, s.describe()...)
	}
	slices.SortFunc(list, func(a, b stream.Standby) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), strings.Compare(a.Group, b.Group), strings.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Index, b.Partition.Index))
	})
	return list
}
