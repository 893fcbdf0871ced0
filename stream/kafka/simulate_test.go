package kafka

import (
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var seed = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// TestSimulation runs consumers with faults and rebalances in virtual time.
func TestSimulation(t *testing.T) {
	r := newRand(t)
	faults := streamtest.DefaultPercent()
	faults[streamtest.Rebalance] = 1 // a group of Kafka takes longer than the poll of a consumer
	faults[streamtest.Takeover] = 1
	for range 10 {
		n := r.Uint64()
		synctest.Test(t, func(t *testing.T) {
			streamtest.Simulate(t, func(t *testing.T) stream.Log {
				var network kfake.VirtualNetwork
				o := conforming(fake(t, kfake.ListenFn(network.Listen)))
				o.dial = network.DialContext
				return openAt(t, o)
			}, streamtest.Options{Seed: n, Timeout: 10 * time.Minute, Remote: true, Faults: streamtest.FaultyOptions{Percent: faults, Stall: time.Second}})
		})
	}
}
