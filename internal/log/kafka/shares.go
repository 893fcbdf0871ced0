package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// shares are the partitions of a member, with what was read of them ahead of Poll.
//
//  1. assigned: a share is made, and its state restored beside heartbeats.
//  2. restored: Poll returns it as Assigned.
//  3. revoked: Poll returns it as Revoked; the callback of the client waits.
//  4. The Poll after releases it, once no commit is outstanding.
//
// So a partition has one owner, and what its owner computed can be committed.
//
// The mutex guards what a Poll, a commit and the client's callbacks change at once.
// Under it a copy gets or loses its owner, and the client is told what to read; nothing
// is waited for.
type shares struct {
	group  string
	most   int           // records that are read ahead
	client *kgo.Client   // that reads them
	ready  chan struct{} // holds a token when there may be something for Poll
	room   chan struct{} // holds a token when there may be room for more records

	mu         sync.Mutex // guards the rest, and the fields of each share
	all        []*share
	closed     bool            // the member is dead: it has none, and gets none
	committing bool            // a commit is outstanding
	polling    bool            // in Poll
	seen       time.Time       // when the member last was in Poll
	turn       int             // which of all the next Poll begins with
	taken      []stream.Record // what the last Poll returned; the slice is used again
}

// share is a partition of a member.
type share struct {
	partition stream.Partition
	changelog stream.Partition
	local     *local // once it is restored
	next      int64  // the committed offset, when it was assigned
	begun     bool   // its state is being restored or was
	restored  bool
	given     bool // Poll returned it as Assigned
	revoked   bool // the group takes it away
	told      bool // Poll returned it as Revoked
	leaving   bool // a Poll came after that
	paused    bool // by the task
	cancel    context.CancelFunc
	released  chan struct{} // closed when it is the member's no more

	queue []stream.Record // read ahead
	taken int             // the first of queue, which are gone
}

func newShares(group string, most int) *shares {
	return &shares{group: group, most: most, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), seen: time.Now()}
}

func (sh *share) buffered() int { return len(sh.queue) - sh.taken }

// full reports whether enough was read ahead. A paused partition does not hold
// up the others: the client stopped reading it.
func (s *shares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, sh := range s.all {
		if !sh.paused {
			n += sh.buffered()
		}
	}
	return n >= s.most
}

// any reports whether there are any.
func (s *shares) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > 0
}

// find returns the share of p, or nil. Its caller holds mu.
func (s *shares) find(p stream.Partition) *share {
	for _, sh := range s.all {
		if sh.partition == p {
			return sh
		}
	}
	return nil
}

// enter notes that Poll begins, and away that it ended.
func (s *shares) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling = true
	for _, sh := range s.all {
		sh.leaving = sh.told
	}
}

func (s *shares) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling, s.seen = false, time.Now()
}

// look returns what there is for Poll.
func (s *shares) look(limit int) (batch stream.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range slices.Clone(s.all) {
		switch {
		case sh.leaving && !s.committing:
			s.release(sh)
		case sh.revoked && !sh.told:
			sh.told = true
			batch.Revoked = append(batch.Revoked, sh.partition)
		case sh.restored && !sh.given:
			sh.given = true
			batch.Assigned = append(batch.Assigned, stream.Assigned{Partition: sh.partition, Next: stream.Offset(sh.next), State: sh.local.space})
		}
	}
	batch.Records = s.take(limit)
	return batch
}

// take returns records that were read ahead, as even a share of each partition
// as there is, beginning with another each time. Its caller holds mu.
func (s *shares) take(limit int) []stream.Record {
	var readable []*share
	total := 0
	for _, sh := range s.all {
		if sh.given && !sh.paused && !sh.revoked && sh.buffered() > 0 {
			readable = append(readable, sh)
			total += sh.buffered()
		}
	}
	if total == 0 || limit <= 0 {
		return nil
	}
	s.turn++
	clear(s.taken)
	records := slices.Grow(s.taken[:0], min(limit, total))
	for left := len(readable); left > 0; left-- {
		sh := readable[(s.turn+left)%len(readable)]
		records = sh.take(records, (limit-len(records)+left-1)/left)
	}
	s.taken = records
	signal(s.room)
	return records
}

// put queues the records of a fetch.
func (s *shares) put(fetches kgo.Fetches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Err != nil {
			return
		}
		sh := s.find(stream.Partition{Topic: f.Topic, Index: f.Partition})
		if sh != nil && !sh.revoked {
			sh.put(f.Records)
		}
	})
}

// put appends records to the queue, and gives the client's back to it: it makes
// the next ones where these still are in the processor's cache.
func (sh *share) put(records []*kgo.Record) {
	if len(sh.queue)+len(records) > cap(sh.queue) {
		rest := copy(sh.queue, sh.queue[sh.taken:])
		clear(sh.queue[rest:])
		sh.queue, sh.taken = sh.queue[:rest], 0
	}
	for _, r := range records {
		out := decode(r)
		out.Partition.Topic = sh.partition.Topic
		sh.queue = append(sh.queue, out)
		r.Recycle()
	}
}

// take moves at most limit records out of the queue.
func (sh *share) take(to []stream.Record, limit int) []stream.Record {
	head := sh.queue[sh.taken:]
	head = head[:min(limit, len(head))]
	to = append(to, head...)
	clear(head) // let go of what they point to
	if sh.taken += len(head); sh.taken == len(sh.queue) {
		sh.queue, sh.taken = sh.queue[:0], 0
	}
	return to
}

func (s *shares) setPaused(partitions []stream.Partition, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []stream.Partition
	for _, p := range partitions {
		if sh := s.find(p); sh != nil && sh.given && sh.paused != paused {
			sh.paused = paused
			changed = append(changed, p)
		}
	}
	s.hold(paused, changed...)
	if paused {
		signal(s.room)
	} else {
		signal(s.ready)
	}
}

// hold tells the client whether to read partitions.
func (s *shares) hold(still bool, partitions ...stream.Partition) {
	set := map[string][]int32{}
	for _, p := range partitions {
		set[p.Topic] = append(set[p.Topic], p.Index)
	}
	if still {
		s.client.PauseFetchPartitions(set)
	} else {
		s.client.ResumeFetchPartitions(set)
	}
}

// assign makes the shares of partitions.
func (s *shares) assign(added map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, indexes := range added {
		for _, index := range indexes {
			s.share(stream.Partition{Topic: topic, Index: index})
		}
	}
}

// share returns the share of p, or makes it. Its caller holds mu.
func (s *shares) share(p stream.Partition) *share {
	sh := s.find(p)
	if sh == nil && !s.closed {
		sh = &share{partition: p, changelog: changelogOf(s.group, p), cancel: func() {}, released: make(chan struct{})}
		s.all = append(s.all, sh)
	}
	return sh
}

// restore returns the share of p if its state is to be restored, with a context that
// ends when it is released. next is the committed offset. The client does not read p
// until restored is called.
func (s *shares) restore(ctx context.Context, p stream.Partition, next int64) (context.Context, *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.share(p)
	if sh == nil || sh.begun {
		return nil, nil
	}
	ctx, sh.cancel = context.WithCancel(ctx)
	sh.begun, sh.next = true, next
	s.hold(true, p)
	return ctx, sh
}

// restored gives a share its copy, if it was not released meanwhile, as ctx says.
func (s *shares) restored(ctx context.Context, sh *share, copied *local) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		copied.leave(sh)
		return
	}
	sh.local, sh.restored = copied, true
	s.hold(false, sh.partition)
	signal(s.ready)
}

// revoke notes that the group takes partitions away, and returns the shares that are
// to be released.
func (s *shares) revoke(lost map[string][]int32) (waiting []*share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range slices.Clone(s.all) {
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
	signal(s.ready)
	return waiting
}

// patience is how much is left of a timeout, after which the group waits no more for
// the member to give up partitions: since began or, if that is later, its last Poll.
func (s *shares) patience(began time.Time, timeout time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polling {
		return timeout
	}
	if s.seen.After(began) {
		began = s.seen
	}
	return timeout - time.Since(began)
}

// release makes a share nobody's. Its caller holds mu.
func (s *shares) release(sh *share) {
	sh.cancel()
	if sh.local != nil {
		sh.local.leave(sh)
	}
	if sh.begun {
		s.hold(false, sh.partition)
	}
	s.all = slices.DeleteFunc(s.all, func(other *share) bool { return other == sh })
	sh.queue, sh.taken = nil, 0
	signal(s.room) // the reader may wait for what nobody will take
	close(sh.released)
}

// close releases all, since the member is dead.
func (s *shares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, sh := range slices.Clone(s.all) {
		s.release(sh)
	}
	signal(s.ready)
}

// admit begins a commit, unless there is nothing in it: until decided is called no share
// is released but by close. It checks that the member has the partitions of the step,
// and appends them to a list.
func (s *shares) admit(step *stream.Transaction, to []touched) ([]touched, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committing {
		return nil, errOutstanding
	}
	for p, next := range step.Offsets {
		sh := s.find(p)
		if sh == nil || !sh.given {
			return nil, fmt.Errorf("%v: %w", p, stream.ErrFenced)
		}
		to = append(to, touched{share: sh, next: next})
	}
	for i := range step.Changes {
		if _, ok := step.Offsets[step.Changes[i].Partition]; !ok {
			panic(fmt.Sprintf("kafka: a step changes state beside %v without its offset", step.Changes[i].Partition))
		}
	}
	s.committing = !empty(step)
	return to, nil
}

// decided ends a commit.
func (s *shares) decided() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committing = false
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].leaving {
			s.release(s.all[i])
		}
	}
}
