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

// Restores implements stream.Restorer.
func (l *Log) Restores() []stream.Restoring {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]stream.Restoring, 0, len(l.restores))
	for p := range l.restores {
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

// restoring notes that a restore begins, and waits until there is room for it.
// The function returned ends it.
func (l *Log) restoring(ctx context.Context, group string, partition stream.Partition) (*progress, func(), error) {
	p := &progress{group: group, partition: partition, began: time.Now(), said: time.Now()}
	l.mu.Lock()
	if l.restores == nil {
		l.restores = map[*progress]bool{}
	}
	l.restores[p] = true
	l.mu.Unlock()
	done := func() {
		l.mu.Lock()
		delete(l.restores, p)
		l.mu.Unlock()
	}
	select {
	case l.restoreRoom <- struct{}{}:
		return p, func() { <-l.restoreRoom; done() }, nil
	case <-ctx.Done():
		done()
		return nil, nil, ctx.Err()
	}
}

// progressed notes how far a restore is, and waits while what it brought fills the
// memory faster than checkpoints empty it.
func (l *Log) progressed(ctx context.Context, p *progress, next, end int64) error {
	l.mu.Lock()
	if p.next == 0 {
		p.first = next
	}
	p.next, p.end = next, end
	r := p.describe()
	say := time.Since(p.said) >= progressEvery
	if say {
		p.said = time.Now()
	}
	l.mu.Unlock()
	if say {
		l.opts.Logger.Info("kafka: restoring state", "group", r.Group, "partition", r.Partition, "records_left", r.Left, "seconds_left", r.Rest.Round(time.Second).Seconds())
	}
	return l.store.makeRoom(ctx)
}

// stableMost is how long a new assignment waits for transactions that are just
// being ended; after it the client library waits a second at a time.
const stableMost = 500 * time.Millisecond

// awaitStable waits until no transaction under way holds the offsets of
// partitions. The markers of a commit come some milliseconds after its answer:
// whoever takes a partition over would find them missing, and sleep.
func (s *session) awaitStable(added map[string][]int32) {
	ctx, cancel := context.WithTimeout(s.ctx, stableMost)
	defer cancel()
	req, err := s.log.stableOffsets(ctx, s.group, added)
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
func (s *session) watchOffsets(req *kmsg.OffsetFetchRequest) {
	var waiting stall
	for {
		unstable, err := s.unstable(s.ctx, req)
		if err == nil && !unstable || lasting(err) {
			return
		}
		if unstable {
			if err := s.log.stalled(s.ctx, &waiting, s.group); err != nil {
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
func (s *session) unstable(ctx context.Context, req *kmsg.OffsetFetchRequest) (bool, error) {
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
