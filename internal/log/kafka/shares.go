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

// shares holds the partitions of a member, with the records read ahead of Poll.
//
//  1. assigned: a share is created, and its state restored in the background.
//  2. restored: Poll returns it as Assigned.
//  3. revoked: Poll returns it as Revoked; the callback of the client waits.
//  4. The next Poll releases it, once no commit is outstanding.
//
// So a partition has one owner, and the owner can commit its results.
//
// The mutex guards the fields that Poll, Commit and the client's callbacks change at the same time.
// Under it, a copy gets or loses its owner, and the client is told what to read. Nothing blocks
// while it is held.
type shares struct {
	group  string
	most   int           // records to read ahead
	client *kgo.Client   // reads the partitions
	ready  chan struct{} // one token: there may be work for Poll
	room   chan struct{} // one token: there may be room for more records

	mu         sync.Mutex // guards the fields below and those of each share
	all        []*share
	closed     bool            // the member has ended: it has no shares and gets none
	committing bool            // a commit is outstanding
	polling    bool            // in Poll
	seen       time.Time       // time of the last Poll
	turn       int             // index into all at which the next Poll begins
	taken      []stream.Record // result of the last Poll; the slice is reused
}

// share is a partition of a member.
type share struct {
	partition stream.Partition
	changelog stream.Partition
	local     *local // nil until restored
	next      int64  // committed offset at assignment
	begun     bool   // the restore of its state has begun
	restored  bool
	given     bool // Poll returned it as Assigned
	revoked   bool // the group takes it away
	told      bool // Poll returned it as Revoked
	leaving   bool // a Poll followed after that
	paused    bool // by the task
	cancel    context.CancelFunc
	released  chan struct{} // closed when the member no longer owns it

	queue []stream.Record // records read ahead
	taken int             // number of records at the front of queue that Poll has taken
}

func newShares(group string, most int) *shares {
	return &shares{group: group, most: most, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), seen: time.Now()}
}

func (sh *share) buffered() int { return len(sh.queue) - sh.taken }

// full reports whether enough records were read ahead. Paused partitions do not count, since the
// client no longer reads them.
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

// any reports whether the member has shares.
func (s *shares) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > 0
}

// find returns the share of p, or nil. The caller must hold mu.
func (s *shares) find(p stream.Partition) *share {
	for _, sh := range s.all {
		if sh.partition == p {
			return sh
		}
	}
	return nil
}

// enter records that Poll begins; away records that it ended.
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

// look returns the assignment changes and records for Poll.
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

// take returns records that were read ahead, in shares as even as possible. Each call begins with
// another partition. The caller must hold mu.
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

// put appends records to the queue and recycles the client's records. The client then builds the
// next ones in memory that is still in the processor's cache.
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
	clear(head) // release the memory that the records refer to
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

// assign creates the shares of newly assigned partitions.
func (s *shares) assign(added map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, indexes := range added {
		for _, index := range indexes {
			s.share(stream.Partition{Topic: topic, Index: index})
		}
	}
}

// share returns the share of p and creates it if needed. The caller must hold mu.
func (s *shares) share(p stream.Partition) *share {
	sh := s.find(p)
	if sh == nil && !s.closed {
		sh = &share{partition: p, changelog: changelogOf(s.group, p), cancel: func() {}, released: make(chan struct{})}
		s.all = append(s.all, sh)
	}
	return sh
}

// restore returns the share of p if its state must be restored, and a context that ends when the
// share is released. next is the committed offset. The client does not read p until restored is
// called.
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

// restored sets the copy of a share, unless ctx shows that the share was released.
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

// revoke records that the group takes partitions away. It returns the shares to release.
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

// patience returns the rest of a timeout, after which the group no longer waits for the member to
// give up partitions. The timeout starts at began or at the member's last Poll, whichever is later.
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

// release ends the ownership of a share. The caller must hold mu.
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
	signal(s.room) // the reader may wait for room that these records occupied
	close(sh.released)
}

// close releases all shares of a member that has ended.
func (s *shares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, sh := range slices.Clone(s.all) {
		s.release(sh)
	}
	signal(s.ready)
}

// admit begins a commit, unless it is empty. Until decided is called, only close releases shares.
// admit checks that the member owns all partitions of the transaction, and appends them to a list.
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
