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
	for name, breakMember := range map[string]func(*broken, stream.Transaction) *stream.Pending{
		"offsets are committed before outputs": func(b *broken, s stream.Transaction) *stream.Pending {
			if b.rarely() {
				b.Member.Commit(stream.Transaction{Offsets: s.Offsets})
				return b.fail()
			}
			return b.Member.Commit(s)
		},
		"outputs are committed before offsets": func(b *broken, s stream.Transaction) *stream.Pending {
			if b.rarely() {
				b.Member.Commit(stream.Transaction{Outputs: s.Outputs})
				return b.fail()
			}
			return b.Member.Commit(s)
		},
		"state is committed before offsets": func(b *broken, s stream.Transaction) *stream.Pending {
			if b.rarely() {
				b.Member.Commit(stream.Transaction{Changes: s.Changes, Offsets: b.committed(s.Offsets)})
				return b.fail()
			}
			return b.Member.Commit(s)
		},
		"a change is lost": func(b *broken, s stream.Transaction) *stream.Pending {
			if len(s.Changes) > 0 && b.rarely() {
				s.Changes = s.Changes[1:]
			}
			return b.Member.Commit(s)
		},
		"an acknowledged commit did nothing": func(b *broken, s stream.Transaction) *stream.Pending {
			if b.rarely() {
				return b.Member.Commit(stream.Transaction{})
			}
			return b.Member.Commit(s)
		},
		"a commit is done twice": func(b *broken, s stream.Transaction) *stream.Pending {
			if b.rarely() {
				b.Member.Commit(s)
			}
			return b.Member.Commit(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				var err error
				synctest.Test(t, func(t *testing.T) {
					log := &brokenLog{
						Log:    memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond}),
						rng:    rand.New(rand.NewPCG(seed, 99)),
						commit: breakMember,
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
	commit func(*broken, stream.Transaction) *stream.Pending
	stale  map[stream.Partition]stream.View // states of first assignments
}

func (l *brokenLog) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	return &broken{Member: s, log: l, group: group}, err
}

type broken struct {
	stream.Member
	log   *brokenLog
	group string
}

func (b *broken) rarely() bool {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	return b.log.rng.IntN(10) == 0
}

// fail ends the member as a failed commit does.
func (b *broken) fail() *stream.Pending {
	_ = b.Member.Close()
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

func (b *broken) Commit(s stream.Transaction) *stream.Pending {
	if b.log.commit == nil {
		return b.Member.Commit(s)
	}
	return b.log.commit(b, s)
}

// Poll hands out the state of the first assignment: none.
func (b *broken) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	batch, err := b.Member.Poll(ctx, limit)
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
