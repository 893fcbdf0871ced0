package streamtest_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/memory"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// reopened is a memory log whose Close ends the sessions and keeps the rest.
type reopened struct {
	*memory.Log
	mu       sync.Mutex // guards sessions
	sessions []stream.Session
}

func (r *reopened) Join(ctx context.Context, group string, topics ...string) (stream.Session, error) {
	s, err := r.Log.Join(ctx, group, topics...)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sessions = append(r.sessions, s)
	}
	return s, err
}

func (r *reopened) Close() error {
	for _, s := range r.sessions {
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

// The suites see every call through the interfaces alone: a wrapper that adds
// nothing passes.
func TestSuitePassesThroughAWrapper(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log { return &plain{newMemory(t).(*memory.Log)} })
}

// plain decides commits late and yields slowly, as a log on a disk does.
type plain struct{ *memory.Log }

func (p *plain) Join(ctx context.Context, group string, topics ...string) (stream.Session, error) {
	none := streamtest.FaultyOptions{Percent: map[streamtest.Fault]int{streamtest.Delay: 100}, MaxDelay: 1e6}
	return streamtest.NewFaulty(p.Log, none).Join(ctx, group, topics...)
}

func (p *plain) Tail(ctx context.Context, partition stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return p.Log.Tail(ctx, partition, from)
}
