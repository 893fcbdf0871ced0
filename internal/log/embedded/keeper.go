package embedded

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// keeper writes indexes and removes old segments, outside the commit path.
type keeper struct{ *Log }

// run maintains the log until it is closed.
func (k *keeper) run() {
	const watch = time.Second // interval of the check for RetainAge
	for {
		k.saveIndexes()
		if err := k.retire(); err != nil {
			k.fail(err)
		}
		var tick <-chan time.Time
		if k.opts.RetainAge > 0 {
			tick = time.After(min(watch, k.opts.RetainAge))
		}
		select {
		case <-k.kick:
		case <-tick:
		case <-k.closing:
			return
		}
	}
}

// retire removes the oldest segments from the log, one by one. So a crash in between leaves a log
// without a gap.
func (k *keeper) retire() error {
	for {
		s := k.retirable()
		if s == nil {
			return nil
		}
		err := ignoreMissing(k.opts.fs.Remove(k.path("idx", s.indexName())))
		if err == nil {
			err = k.recycle(s)
		}
		if err == nil {
			err = syncDir(k.opts.fs, k.path("log"))
		}
		if err != nil {
			return fmt.Errorf("retire segment %s: %w", s.path, err)
		}
		k.stats.retired.Add(1)
	}
}

// retirable removes the oldest segment from memory if it may be deleted.
func (k *keeper) retirable() *segment {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.segments[0]
	if len(k.segments) == 1 || k.err != nil || !k.expired(s) || s.last > k.store.Applied() || k.needed(s) {
		return nil
	}
	k.segments = k.segments[1:]
	for _, t := range k.topics {
		for _, p := range t.parts {
			if len(p.spans) > 0 && p.spans[0].segment == s {
				p.spans = p.spans[1:]
			}
		}
	}
	return s
}

// expired reports whether the oldest segment exceeds the retention limits.
func (k *keeper) expired(s *segment) bool {
	if k.opts.RetainAge > 0 && time.Since(s.sealed) > k.opts.RetainAge {
		return true
	}
	bytes := int64(0)
	for _, s := range k.segments {
		bytes += s.size
	}
	return k.opts.RetainBytes > 0 && bytes > k.opts.RetainBytes
}

// needed reports whether a live reader or a group is in s or before it.
func (k *keeper) needed(s *segment) bool {
	for _, t := range k.topics {
		for _, p := range t.parts {
			if len(p.spans) == 0 || p.spans[0].segment != s {
				continue
			}
			for _, c := range p.readers {
				if stream.Offset(c.next.Load()) < p.spans[0].next {
					return true
				}
			}
			for _, g := range k.groups {
				sh := g.all[p]
				if sh != nil && sh.committed < p.spans[0].next && (sh.owner != nil || !k.opts.ReleaseUnread && g.everCommitted) {
					return true
				}
			}
		}
	}
	return false
}

// checkpointer writes checkpoints of the state of a log.
type checkpointer struct {
	log    *Log
	logged atomic.Int64  // bytes written to the log since the last checkpoint began
	dueAt  atomic.Int64  // value of logged at which the writer signals due
	began  time.Time     // start of the last checkpoint; only run's goroutine uses it
	due    chan struct{} // one token: a checkpoint is due
}

// run writes a checkpoint after each CheckpointInterval or CheckpointBytes of log.
func (c *checkpointer) run(ctx context.Context) {
	c.began = time.Now()
	for done := c.log.store.Applied(); ; {
		c.dueAt.Store(c.log.opts.CheckpointBytes)
		select {
		case <-time.After(time.Until(c.began.Add(c.log.opts.CheckpointInterval))):
		case <-c.due:
			if c.logged.Load() < c.log.opts.CheckpointBytes && !c.log.store.Full() {
				continue // the signal was for the previous checkpoint
			}
		case <-c.log.store.Failed():
			c.log.fail(c.log.store.Err())
			return
		case <-ctx.Done():
			return
		}
		c.began = time.Now()
		seq := c.log.applied.Load()
		if seq == done {
			continue
		}
		c.logged.Store(0)
		if err := c.log.store.Checkpoint(ctx, seq, false); err != nil {
			if ctx.Err() == nil {
				c.log.fail(err)
			}
			return
		}
		done = seq
		signal(c.log.kick)
	}
}

// rest slows down the running checkpoint so that it takes half of the interval between two
// checkpoints, in time or in log bytes. At full speed it would occupy a core. With more than a
// half, recovery would have to redo more.
func (c *checkpointer) rest(ctx context.Context, share float64) {
	until := c.began.Add(time.Duration(share / 2 * float64(c.log.opts.CheckpointInterval)))
	bytes := int64(share / 2 * float64(c.log.opts.CheckpointBytes))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for c.dueAt.Store(bytes); c.logged.Load() < bytes && !c.log.store.Full(); {
		select {
		case <-c.due:
		case <-timer.C:
			return
		case <-c.log.store.Failed():
			return
		case <-ctx.Done():
			return
		}
	}
}
