package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// progress is a restore under way. The log's mutex guards it.
type progress struct {
	group            string
	partition        stream.Partition
	began            time.Time
	first, next, end int64 // of the changelog; all 0 until it waits no more
	said             time.Time
}

const (
	// restoresMost is how many partitions a log restores at once. Each holds a
	// fetch in memory; more at once are not faster.
	restoresMost = 8
	// progressEvery is how often a long restore is logged.
	progressEvery = 5 * time.Second
)

// restorer is the restores of a log that are under way.
type restorer struct {
	log  *Log
	all  map[*progress]bool // guarded by the log's mutex
	room chan struct{}      // one token for each restore that reads
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

// begin notes that a restore begins, and waits until there is room for it.
// The function returned ends it.
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

// progressed notes how far a restore is, and waits while what it brought fills the
// memory faster than checkpoints empty it.
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

// stableMost is how long a new assignment waits for transactions that are just
// being ended; after it the client library waits a second at a time.
const stableMost = 500 * time.Millisecond

// awaitStable waits until no transaction under way holds the offsets of
// partitions. The markers of a commit come some milliseconds after its answer:
// whoever takes a partition over would find them missing, and sleep.
func (s *member) awaitStable(added map[string][]int32) {
	ctx, cancel := context.WithTimeout(s.ctx, stableMost)
	defer cancel()
	req, err := s.log.offsets.stable(ctx, s.group, added)
	if err != nil {
		return
	}
	for tries := 1; ; tries++ {
		unstable, err := s.unstable(ctx, req)
		if err == nil && !unstable || lasting(err) { // the client library finds out what is wrong
			return
		}
		if err != nil || s.log.wait(ctx, min(backOff(tries)/2, 50*time.Millisecond)) != nil {
			s.mu.Lock()
			if s.err == nil {
				s.work.Go(func() { s.watchOffsets(req) })
			}
			s.mu.Unlock()
			return
		}
	}
}

// watchOffsets sees that the offsets of req are decided, for which the client
// library waits beside it.
func (s *member) watchOffsets(req *kmsg.OffsetFetchRequest) {
	var waiting stall
	for {
		unstable, err := s.unstable(s.ctx, req)
		if err == nil && !unstable || lasting(err) {
			return
		}
		if unstable {
			if err := waiting.group(s.ctx, s.log, s.group); err != nil {
				s.end(fmt.Errorf("read what group %q committed: %w", s.group, err))
				return
			}
		}
		if s.log.wait(s.ctx, time.Second) != nil {
			return
		}
	}
}

// unstable reports whether the answer is that an offset may change. An error is
// that there is no answer, as where ctx was done meanwhile.
func (s *member) unstable(ctx context.Context, req *kmsg.OffsetFetchRequest) (bool, error) {
	resp, err := req.RequestWith(ctx, s.log.client)
	if err != nil {
		return false, err
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.UnstableOffsetCommit) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
