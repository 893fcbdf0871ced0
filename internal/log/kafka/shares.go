package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// share is a partition of a member.
type share struct {
	partition stream.Partition
	local     *local
	next      int64 // the committed offset, when it was assigned
	begun     bool  // its state is being restored or was
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

func (sh *share) buffered() int { return len(sh.queue) - sh.taken }

// full reports whether enough was read ahead. A paused partition does not hold
// up the others: the client stopped reading it.
func (s *member) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, sh := range s.shares {
		if !sh.paused {
			n += sh.buffered()
		}
	}
	return n >= s.log.opts.BufferRecords
}

func (s *member) find(p stream.Partition) *share {
	for _, sh := range s.shares {
		if sh.partition == p {
			return sh
		}
	}
	return nil
}

func (s *member) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling = true
	for _, sh := range s.shares {
		sh.leaving = sh.told
	}
}

func (s *member) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling, s.seen = false, time.Now()
}

// look returns what there is for Poll.
func (s *member) look(limit int) (batch stream.Batch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return batch, s.err
	}
	for _, sh := range slices.Clone(s.shares) {
		switch {
		case sh.leaving && !s.pending:
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
	return batch, nil
}

// take returns records that were read ahead, as even a share of each partition
// as there is, beginning with another each time.
func (s *member) take(limit int) []stream.Record {
	var readable []*share
	total := 0
	for _, sh := range s.shares {
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

func (s *member) setPaused(partitions []stream.Partition, paused bool) {
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
func (s *member) hold(still bool, partitions ...stream.Partition) {
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

// share returns the share of p, or makes it. Its caller holds mu.
func (s *member) share(p stream.Partition) *share {
	sh := s.find(p)
	if sh == nil && s.err == nil {
		sh = &share{partition: p, cancel: func() {}, released: make(chan struct{})}
		s.shares = append(s.shares, sh)
	}
	return sh
}

// patience is how long the group waits for a member that was last in Poll when
// it was, and that was asked to give up partitions at began.
func (s *member) patience(began time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	timeout := s.log.opts.RebalanceTimeout
	if s.polling {
		return timeout
	}
	if s.seen.After(began) {
		began = s.seen
	}
	return timeout - time.Since(began)
}

// release makes a share nobody's. Its caller holds mu.
func (s *member) release(sh *share) {
	sh.cancel()
	if sh.local != nil {
		sh.local.leave(sh)
	}
	if sh.begun {
		s.hold(false, sh.partition)
	}
	s.shares = slices.DeleteFunc(s.shares, func(other *share) bool { return other == sh })
	sh.queue, sh.taken = nil, 0
	signal(s.room) // the reader may wait for what nobody will take
	close(sh.released)
}
