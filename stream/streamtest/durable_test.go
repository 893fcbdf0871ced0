package streamtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// reopened is a memory log whose Close ends the members and keeps the rest.
type reopened struct {
	*memory.Log
	mu      sync.Mutex // guards members
	members []stream.Member
}

func (r *reopened) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := r.Log.Join(ctx, group, topics...)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.members = append(r.members, s)
	}
	return s, err
}

func (r *reopened) Close() error {
	for _, s := range r.members {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func TestDurableSuitePassesWhereEverythingIsKept(t *testing.T) {
	log := memory.New(memory.Options{})
	streamtest.RunDurable(t, func(*testing.T) stream.Log { return &reopened{Log: log} })
}

// Commits of a log on a disk are decided while the member goes on.
func TestSuitePassesWhereCommitsAreDecidedLate(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log {
		return &late{memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond})}
	})
}

type late struct{ *memory.Log }

func (l *late) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	return streamtest.NewFaulty(l.Log, streamtest.FaultyOptions{
		Percent:  map[streamtest.Fault]int{streamtest.Delay: 100},
		MaxDelay: time.Millisecond,
	}).Join(ctx, group, topics...)
}
