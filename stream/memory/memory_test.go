package memory_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/memory"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	seeds     = flag.Uint64("streamtest.seeds", 200, "number of seeds of TestSimulation")
	firstSeed = flag.Uint64("streamtest.seed", 0, "first seed of TestSimulation")
)

func newLog(*testing.T) stream.Log {
	return memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond})
}

func TestSimulation(t *testing.T) {
	total := streamtest.Counts{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				total.Add(streamtest.Simulate(t, newLog, streamtest.Options{
					Seed:   seed,
					Faults: streamtest.FaultyOptions{Stall: time.Second},
				}))
			})
		})
	}
	t.Log(total)
	if missing := total.Missing(); *seeds >= 20 && len(missing) > 0 {
		t.Errorf("faults that never happened: %v", missing)
	}
}

func TestConformance(t *testing.T) { streamtest.Run(t, newLog) }
