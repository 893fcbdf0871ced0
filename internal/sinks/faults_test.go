package sinks_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	faultsSeed  = flag.Uint64("faults.seed", 1, "first seed of TestFaultsOfTheLogCostOnlyCallsThatWereInFlight")
	faultsSeeds = flag.Uint64("faults.seeds", 20, "how many")
)

// TestFaultsOfTheLogCostOnlyCallsThatWereInFlight delivers from logs whose
// commits fail and whose partitions move, to a service that fails now and then.
// Every record is taken or one dead letter, and is called for once more at most
// for every failure and every member that died.
func TestFaultsOfTheLogCostOnlyCallsThatWereInFlight(t *testing.T) {
	counts := streamtest.Counts{}
	for seed := *faultsSeed; seed < *faultsSeed+*faultsSeeds; seed++ {
		synctest.Test(t, func(t *testing.T) { counts.Add(deliverFromFaulty(t, seed)) })
	}
	if missing := counts.Missing(); len(missing) > 0 && *faultsSeeds >= 20 {
		t.Errorf("faults that never happened: %v", missing)
	}
}

func deliverFromFaulty(t *testing.T, seed uint64) streamtest.Counts {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	const records = 600
	for i := range records {
		b.write(int32(rng.IntN(2)), fmt.Sprint("k", rng.IntN(20)), fmt.Sprint("e", i), time.Now())
	}
	failures := map[string]int{}
	for range 40 {
		failures[fmt.Sprint("e", rng.IntN(records))]++
	}
	b.service.takes = time.Duration(1+rng.IntN(30)) * time.Millisecond
	b.service.answer = func(id string, call int) error {
		switch {
		case call <= failures[id]:
			return errors.New("flapping")
		case id[len(id)-2:] == "17":
			return &sink.Refused{Err: errors.New("seventeen")}
		}
		return nil
	}
	faulty := streamtest.NewFaulty(b.log, streamtest.FaultyOptions{Seed: seed})
	metrics, stop := b.start(faulty, sinks.Options{Concurrency: 1 + rng.IntN(8)})
	b.wait(time.Hour)
	stop()

	deaths := int(metrics.Rejoined.Load())
	dead := map[string]int{}
	for _, r := range b.dead() {
		dead[header.Get(&r, header.Event)]++
	}
	taken := map[string]bool{}
	for _, id := range b.service.taken {
		taken[id] = true
	}
	again := 0
	for i := range records {
		id := fmt.Sprint("e", i)
		calls := b.service.calls[id]
		if again += calls - 1 - failures[id]; calls < 1+failures[id] || calls > 1+failures[id]+deaths {
			t.Errorf("seed %d: %d calls for %s, %d of which failed, in %d members", seed, calls, id, failures[id], deaths+1)
		}
		if wanted := id[len(id)-2:] == "17"; wanted && (dead[id] != 1 || taken[id]) || !wanted && (dead[id] != 0 || !taken[id]) {
			t.Errorf("seed %d: %s: taken %v, %d dead letters", seed, id, taken[id], dead[id])
		}
	}
	t.Logf("seed %d: %d members, %d calls again: %v", seed, deaths+1, again, faulty.Counts())
	return faulty.Counts()
}
