package embedded

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// TestCrashLeavesNoStepAheadOfItsInputs crashes a log, before calls that change
// the disk, while several append and a member reads early: what was
// acknowledged is there, each step whole, and none without its inputs.
func TestCrashLeavesNoStepAheadOfItsInputs(t *testing.T) {
	r := newRand(t)
	disk := vfs.NewMemory()
	var mu sync.Mutex // guards the rest
	rng := rand.New(rand.NewPCG(r.Uint64(), 2))
	var ledgers []*ledger
	var disks []*vfs.Memory
	g := newLedger(func() {})
	o := faultOptions(vfs.Faulty(disk, func(c vfs.Call) (o vfs.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if c.Kind.Changes() && len(g.acked) > 0 && sample(rng, 4) {
			ledgers = append(ledgers, &ledger{acked: slices.Clone(g.acked), begun: g.begun, committed: g.committed})
			disks = append(disks, disk.Crash(rng))
		}
		return o
	}))
	o.GroupInterval = 300 * time.Microsecond
	if err := g.open(o); err != nil {
		t.Fatal(err)
	}
	g.runEarly(t, &mu)
	fused := g.log.Stats().FusedSteps
	if err := g.log.Close(); err != nil {
		t.Fatal(err)
	}
	for i, disk := range disks {
		l := mustOpen(t, faultOptions(disk))
		in := values(t, l, events, 0)
		slices.SortStableFunc(ledgers[i].acked, func(a, b string) int { return slices.Index(in, a) - slices.Index(in, b) })
		if err := ledgers[i].check(t, l); err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		l.Close()
	}
	if len(disks) < 20 || fused == 0 {
		t.Fatalf("%d crashes, %d steps fused", len(disks), fused)
	}
	t.Logf("%d crashes, %d steps fused", len(disks), fused)
}

// runEarly appends from three goroutines while a member reads early. mu guards
// the ledger's fields.
func (g *ledger) runEarly(t *testing.T, mu *sync.Mutex) {
	const writers, n = 3, 60
	s := joinEarly(t, g.log)
	var group sync.WaitGroup
	defer group.Wait()
	for w := range writers {
		group.Go(func() { g.appendAs(t, mu, w, n) })
	}
	for next := 0; next < writers*n; {
		b, err := s.Poll(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		if next += len(b.Records); len(b.Records) == 0 {
			continue
		}
		if err := commit(t, s, answer(b.Records, stream.Offset(next))); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		g.committed = stream.Offset(next)
		mu.Unlock()
	}
}
