package streamtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// A simulation is worth what it finds: each of these logs breaks one promise,
// and some seed of the first 200 has to say so. The hardest to see, a lost change
// that a later one may cover, is found by one seed of seven: that all miss it is
// a chance of 1e-14.
func TestSimulationFindsBrokenLogs(t *testing.T) {
	for name, breakSession := range map[string]func(*broken, stream.Step) *stream.Pending{
		"offsets are committed before outputs": func(b *broken, s stream.Step) *stream.Pending {
			if b.rarely() {
				b.Session.Commit(stream.Step{Offsets: s.Offsets})
				return b.fail()
			}
			return b.Session.Commit(s)
		},
		"outputs are committed before offsets": func(b *broken, s stream.Step) *stream.Pending {
			if b.rarely() {
				b.Session.Commit(stream.Step{Outputs: s.Outputs})
				return b.fail()
			}
			return b.Session.Commit(s)
		},
		"state is committed before offsets": func(b *broken, s stream.Step) *stream.Pending {
			if b.rarely() {
				b.Session.Commit(stream.Step{Changes: s.Changes, Offsets: b.committed(s.Offsets)})
				return b.fail()
			}
			return b.Session.Commit(s)
		},
		"a change is lost": func(b *broken, s stream.Step) *stream.Pending {
			if len(s.Changes) > 0 && b.rarely() {
				s.Changes = s.Changes[1:]
			}
			return b.Session.Commit(s)
		},
		"an acknowledged commit did nothing": func(b *broken, s stream.Step) *stream.Pending {
			if b.rarely() {
				return b.Session.Commit(stream.Step{})
			}
			return b.Session.Commit(s)
		},
		"a commit is done twice": func(b *broken, s stream.Step) *stream.Pending {
			if b.rarely() {
				b.Session.Commit(s)
			}
			return b.Session.Commit(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				var err error
				synctest.Test(t, func(t *testing.T) {
					log := &brokenLog{
						Log:    memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond}),
						rng:    rand.New(rand.NewPCG(seed, 99)),
						commit: breakSession,
					}
					_, err = simulate(t.Context(), log, Options{Seed: seed, Faults: FaultyOptions{Stall: time.Second}})
				})
				if err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no seed found it")
		})
	}
}

func TestSimulationFindsStaleState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &brokenLog{Log: memory.New(memory.Options{}), stale: map[stream.Partition]stream.View{}}
		_, err := simulate(t.Context(), log, Options{Faults: FaultyOptions{Percent: map[Fault]int{CommitLost: 20}}})
		if err == nil {
			t.Error("not found")
		}
		t.Log(err)
	})
}

type brokenLog struct {
	*memory.Log
	mu     sync.Mutex // guards rng and stale
	rng    *rand.Rand
	commit func(*broken, stream.Step) *stream.Pending
	stale  map[stream.Partition]stream.View // states of first assignments
}

func (l *brokenLog) Join(ctx context.Context, group string, topics ...string) (stream.Session, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	return &broken{Session: s, log: l, group: group}, err
}

type broken struct {
	stream.Session
	log   *brokenLog
	group string
}

func (b *broken) rarely() bool {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	return b.log.rng.IntN(10) == 0
}

// fail ends the session as a failed commit does.
func (b *broken) fail() *stream.Pending {
	_ = b.Session.Close()
	pending := stream.NewPending()
	pending.Decide(stream.ErrFenced)
	return pending
}

func (b *broken) committed(offsets map[stream.Partition]stream.Offset) map[stream.Partition]stream.Offset {
	before := map[stream.Partition]stream.Offset{}
	for p := range offsets {
		before[p], _ = b.log.Committed(context.Background(), b.group, p)
	}
	return before
}

func (b *broken) Commit(s stream.Step) *stream.Pending {
	if b.log.commit == nil {
		return b.Session.Commit(s)
	}
	return b.log.commit(b, s)
}

// Poll hands out the state of the first assignment: none.
func (b *broken) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	batch, err := b.Session.Poll(ctx, limit)
	if b.log.stale != nil {
		b.log.mu.Lock()
		defer b.log.mu.Unlock()
		for i, a := range batch.Assigned {
			if b.log.stale[a.Partition] == nil {
				b.log.stale[a.Partition], _ = b.log.State(ctx, "nobody", a.Partition)
			}
			batch.Assigned[i].State = b.log.stale[a.Partition]
		}
	}
	return batch, err
}
