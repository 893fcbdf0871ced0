package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// progress is a running restore. The log's mutex guards it.
type progress struct {
	group            string
	partition        stream.Partition
	began            time.Time
	first, next, end int64 // offsets in the changelog; all 0 while it waits to begin
	said             time.Time
}

const (
	// restoresMost is how many partitions a log restores at once. Each holds a fetch in memory.
	// More at once are not faster.
	restoresMost = 8
	// progressEvery is how often a long restore is logged.
	progressEvery = 5 * time.Second
)

// restorer holds the running restores of a log.
type restorer struct {
	log  *Log
	all  map[*progress]bool // guarded by the log's mutex
	room chan struct{}      // one token per restore that reads
}

// Restores implements stream.Restorer.
func (l *Log) Restores() []stream.Restoring {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]stream.Restoring, 0, len(l.restores.all))
	for p := range l.restores.all {
		list = append(list, p.describe())
	}
	slices.SortFunc(list, func(a, b stream.Restoring) int {
		return cmp.Or(cmp.Compare(b.Left, a.Left), strings.Compare(a.Group, b.Group), strings.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Index, b.Partition.Index))
	})
	return list
}

func (p *progress) describe() stream.Restoring {
	r := stream.Restoring{Group: p.group, Partition: p.partition, Left: p.end - p.next, Took: time.Since(p.began)}
	if done := p.next - p.first; done > 0 {
		r.Rest = time.Duration(float64(r.Took) * float64(r.Left) / float64(done))
	}
	return r
}

// begin registers a restore and waits until it may read. The returned function ends it.
func (r *restorer) begin(ctx context.Context, group string, partition stream.Partition) (*progress, func(), error) {
	p := &progress{group: group, partition: partition, began: time.Now(), said: time.Now()}
	r.log.mu.Lock()
	r.all[p] = true
	r.log.mu.Unlock()
	done := func() {
		r.log.mu.Lock()
		delete(r.all, p)
		r.log.mu.Unlock()
	}
	select {
	case r.room <- struct{}{}:
		return p, func() { <-r.room; done() }, nil
	case <-ctx.Done():
		done()
		return nil, nil, ctx.Err()
	}
}

// progressed records the progress of a restore. It waits while the restore fills the memory faster
// than checkpoints empty it.
func (r *restorer) progressed(ctx context.Context, p *progress, next, end int64) error {
	r.log.mu.Lock()
	if p.next == 0 {
		p.first = next
	}
	p.next, p.end = next, end
	now := p.describe()
	say := time.Since(p.said) >= progressEvery
	if say {
		p.said = time.Now()
	}
	r.log.mu.Unlock()
	if say {
		r.log.opts.Logger.Info("kafka: restoring state", "group", now.Group, "partition", now.Partition, "records_left", now.Left, "seconds_left", now.Rest.Round(time.Second).Seconds())
	}
	return r.log.store.makeRoom(ctx)
}

// restore reads the changelog of a share from the end of the local copy on, and makes the share the
// copy's owner. committed is the stable committed offset, or -1 without one. The position in the
// changelog must be equal to it.
func (r *restorer) restore(ctx context.Context, c *committer, sh *share, committed int64) (*local, error) {
	p, done, err := r.begin(ctx, c.group, sh.partition)
	if err != nil {
		return nil, err
	}
	defer done()
	copied, err := r.log.store.local(c.group, sh.partition)
	if err != nil {
		return nil, err
	}
	t, first, end, err := r.log.reads.bounds(ctx, sh.partition, sh.changelog)
	if err != nil {
		return nil, err
	}
	next, err := copied.take(sh, t.id, first, end)
	if err == nil {
		var position int64
		position, err = r.catchUp(ctx, p, newFollower(sh, copied, sh.changelog, next), end)
		if err == nil && position != committed {
			err = r.differ(ctx, c, sh.partition, committed, position)
		}
	}
	if err == nil && !copied.caughtUp(sh) {
		err = stream.ErrFenced
	}
	if err != nil {
		copied.leave(sh)
		return nil, err
	}
	return copied, nil
}

// coordinatorPatience is how long a coordinator may return an older offset, in rebalance timeouts:
// a minute by default.
const coordinatorPatience = 6

// differ returns the error for a partition with different committed offset and changelog position.
// After a crash, a broker may have a group coordinator that did not read all of its log (ADR 0009).
// It then returns no offset or an older one. So differ asks repeatedly for a while and corrects the
// coordinator. If the answer changes, the member joins again.
func (r *restorer) differ(ctx context.Context, c *committer, p stream.Partition, committed, position int64) error {
	patience, cancel := context.WithTimeout(ctx, coordinatorPatience*r.log.opts.Timeouts.Rebalance)
	defer cancel()
	var unread error
	for tries := 1; ; tries++ {
		again, err := r.log.offsets.committed(patience, c.group, p)
		if err == nil && again != committed {
			return fmt.Errorf("a broker returned committed offset %d, but the group committed %d: %w", committed, again, stream.ErrFenced)
		}
		if err := r.correct(patience, c, p, position); patience.Err() == nil {
			unread = err
		}
		if r.log.wait(patience, backOff(tries)) != nil {
			err := r.log.apart(c.group, p, committed, position)
			if unread != nil {
				err = fmt.Errorf("%w (the answer of the group coordinator could not be verified: %w)", err, unread)
			}
			return r.log.failure(ctx, err)
		}
	}
}

// correct commits the position of p again if the log of the group's coordinator holds it as
// committed. In that case the coordinator did not read all of its log. correct writes the offset
// that the log already has, so no offset moves. It takes the member's identity while the member
// owns p. If another member gets p, the group has a newer generation and rejects the commit.
func (r *restorer) correct(ctx context.Context, c *committer, p stream.Partition, position int64) error {
	m := c.identity()
	if ctx.Err() != nil || m.id == "" || m.generation < 0 || position < 0 { // without a generation, brokers do not check the member
		return nil
	}
	logged, err := r.log.offsets.logged(ctx, c.group, p)
	if err != nil {
		return fmt.Errorf("read its log: %w", err)
	}
	if logged != position {
		return nil
	}
	if err := r.log.offsets.commit(ctx, c.group, p, position, m); err != nil {
		return fmt.Errorf("commit offset %d from its log: %w", position, err)
	}
	r.log.opts.Logger.Warn("kafka: the coordinator of a group did not read its whole log: the engine commits the offset of the log again", "group", c.group, "partition", p, "offset", position)
	return nil
}

// catchUp makes f apply its changelog up to end and returns the position at end. Fetching ahead in
// parallel was tried and is not faster.
func (r *restorer) catchUp(ctx context.Context, p *progress, f *follower, end int64) (int64, error) {
	var waiting stall
	for f.next < end {
		if err := r.progressed(ctx, p, f.next, end); err != nil {
			return 0, err
		}
		records, after, err := waiting.fetch(ctx, r.log, f.changelog, f.next)
		if err != nil {
			return 0, err
		}
		if err := f.follow(records, after); err != nil {
			return 0, err
		}
	}
	return f.replay.position, f.replay.end()
}
