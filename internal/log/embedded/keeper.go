package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// keep writes indexes and retires segments, off the way of commits.
func (l *Log) keep() {
	const watch = time.Second // for ages
	for {
		l.saveIndexes()
		if err := l.retire(); err != nil {
			l.fail(err)
		}
		var tick <-chan time.Time
		if l.opts.RetainAge > 0 {
			tick = time.After(min(watch, l.opts.RetainAge))
		}
		select {
		case <-l.kick:
		case <-tick:
		case <-l.closing:
			return
		}
	}
}

// retire takes the oldest segments out of the log, one by one: a crash in
// between leaves a log without a gap.
func (l *Log) retire() error {
	for {
		s := l.retirable()
		if s == nil {
			return nil
		}
		err := ignoreMissing(l.opts.fs.Remove(l.path("idx", s.indexName())))
		if err == nil {
			err = l.recycle(s)
		}
		if err == nil {
			err = syncDir(l.opts.fs, l.path("log"))
		}
		if err != nil {
			return fmt.Errorf("retire segment %s: %w", s.path, err)
		}
		l.stats.retired.Add(1)
	}
}

// retirable takes the oldest segment out of memory if it may go.
func (l *Log) retirable() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segments[0]
	if len(l.segments) == 1 || l.err != nil || !l.expired(s) || s.last > l.store.Applied() || l.needed(s) {
		return nil
	}
	l.segments = l.segments[1:]
	for _, t := range l.topics {
		for _, p := range t.parts {
			if len(p.spans) > 0 && p.spans[0].segment == s {
				p.spans = p.spans[1:]
			}
		}
	}
	return s
}

// expired reports whether the oldest segment is beyond what is to be retained.
func (l *Log) expired(s *segment) bool {
	if l.opts.RetainAge > 0 && time.Since(s.sealed) > l.opts.RetainAge {
		return true
	}
	bytes := int64(0)
	for _, s := range l.segments {
		bytes += s.size
	}
	return l.opts.RetainBytes > 0 && bytes > l.opts.RetainBytes
}

// needed reports whether a live reader or a group is in s or before it.
func (l *Log) needed(s *segment) bool {
	for _, t := range l.topics {
		for _, p := range t.parts {
			if len(p.spans) == 0 || p.spans[0].segment != s {
				continue
			}
			for _, c := range p.readers {
				if stream.Offset(c.next.Load()) < p.spans[0].next {
					return true
				}
			}
			for _, g := range l.groups {
				sh := g.all[p]
				if sh != nil && sh.committed < p.spans[0].next && (sh.owner != nil || !l.opts.ReleaseUnread && g.everCommitted) {
					return true
				}
			}
		}
	}
	return false
}

// checkpoints makes a checkpoint when enough time or log has passed.
func (l *Log) checkpoints(ctx context.Context) {
	l.began = time.Now()
	for done := l.store.Applied(); ; {
		l.dueAt.Store(l.opts.CheckpointBytes)
		select {
		case <-time.After(time.Until(l.began.Add(l.opts.CheckpointInterval))):
		case <-l.due:
			if l.logged.Load() < l.opts.CheckpointBytes && !l.store.Full() {
				continue // it was for the checkpoint before
			}
		case <-l.store.Failed():
			l.fail(l.store.Err())
			return
		case <-ctx.Done():
			return
		}
		l.began = time.Now()
		seq := l.applied.Load()
		if seq == done {
			continue
		}
		l.logged.Store(0)
		if err := l.store.Checkpoint(ctx, seq, false); err != nil {
			if ctx.Err() == nil {
				l.fail(err)
			}
			return
		}
		done = seq
		signal(l.kick)
	}
}

// restCheckpoint spreads the checkpoint under way over half of what lies
// between two, in time or in log: at once it would take a core for as long as
// it lasts. More than a half would let recovery redo more.
func (l *Log) restCheckpoint(ctx context.Context, share float64) {
	until := l.began.Add(time.Duration(share / 2 * float64(l.opts.CheckpointInterval)))
	bytes := int64(share / 2 * float64(l.opts.CheckpointBytes))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for l.dueAt.Store(bytes); l.logged.Load() < bytes && !l.store.Full(); {
		select {
		case <-l.due:
		case <-timer.C:
			return
		case <-l.store.Failed():
			return
		case <-ctx.Done():
			return
		}
	}
}
