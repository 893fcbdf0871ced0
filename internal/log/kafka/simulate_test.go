package kafka

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of random tests; 0 draws one")
	seeds = flag.Int("seeds", 10, "simulations of each kind")
)

func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// simulate runs consumers on a broker of its own, in virtual time. Each of its
// requests may fail as broken says: nil is that none does.
func simulate(t *testing.T, seed uint64, delivery Delivery, broken func(*kfake.Cluster, *Options)) {
	synctest.Test(t, func(t *testing.T) {
		streamtest.Simulate(t, func(t *testing.T) stream.Log {
			var network kfake.VirtualNetwork
			cluster := fakeWith(t, kfake.ListenFn(network.Listen))
			o := conforming(cluster.ListenAddrs())
			o.dial, o.State.CheckpointEvery, o.Delivery = network.DialContext, 200*time.Millisecond, delivery
			if broken != nil {
				broken(cluster, &o)
			}
			return openAt(t, o)
		}, simulation(seed, delivery))
	})
}

func simulation(seed uint64, delivery Delivery) streamtest.Options {
	faults := streamtest.DefaultPercent()
	faults[streamtest.Rebalance] = 1 // a group of Kafka takes longer than the poll of a consumer
	faults[streamtest.Takeover] = 1
	return streamtest.Options{Seed: seed, Timeout: 10 * time.Minute, Remote: true, Repeats: delivery == AtLeastOnce, Faults: streamtest.FaultyOptions{Percent: faults, Stall: time.Second}}
}

// TestSimulationOnABroker runs them on a real one, in real time.
func TestSimulationOnABroker(t *testing.T) {
	r := newRand(t)
	for range max(1, *seeds/10) {
		streamtest.Simulate(t, func(t *testing.T) stream.Log { return openAt(t, onBroker(t)) }, simulation(r.Uint64(), ExactlyOnce))
	}
}

// TestSimulation runs consumers with faults and rebalances.
func TestSimulation(t *testing.T) {
	r := newRand(t)
	for range *seeds {
		simulate(t, r.Uint64(), ExactlyOnce, nil)
	}
}

// TestSimulationAtLeastOnce runs them with outputs that may come again.
func TestSimulationAtLeastOnce(t *testing.T) {
	r := newRand(t)
	for range max(1, *seeds/2) {
		simulate(t, r.Uint64(), AtLeastOnce, nil)
	}
}

// TestSimulationWithRequestsThatFail runs consumers on brokers that refuse requests,
// also after the broker has done what the request asked, and on connections that
// break. Each fault strikes at least once: the last simulation forces the faults that
// chance has left out. A committed seed cannot promise that, because the order of
// requests depends on the scheduler.
func TestSimulationWithRequestsThatFail(t *testing.T) {
	r := newRand(t)
	hits := map[string]int{}
	for i := range *seeds {
		seed := r.Uint64()
		due := func(name string) bool { return i == *seeds-1 && hits[name] == 0 }
		var handles map[string]*kfake.FaultHandle
		simulate(t, seed, ExactlyOnce, func(cluster *kfake.Cluster, o *Options) {
			lose := &losses{dial: o.dial, rng: rand.New(rand.NewPCG(seed, 1)), calm: 50}
			o.dial = lose.connect
			handles = failRequests(cluster, rand.New(rand.NewPCG(seed, 2)), due)
		})
		for name, h := range handles {
			hits[name] += h.Hits()
		}
	}
	for name, n := range hits {
		if n == 0 {
			t.Errorf("%s was never the answer", name)
		}
	}
	t.Log(hits)
}

// failRequests makes every 50th request fail that may, in each way that it may, and
// the first one where the fault is due.
// Metadata is left alone: for partitions without a leader the client library has
// a second sink, one of the two waits for a producer's id with a mutex held, and
// virtual time stands still while the other waits for that mutex.
func failRequests(cluster *kfake.Cluster, r *rand.Rand, due func(name string) bool) map[string]*kfake.FaultHandle {
	handles := map[string]*kfake.FaultHandle{}
	for key, errs := range map[kmsg.Key][]*kerr.Error{
		kmsg.Produce:         {kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut},
		kmsg.Fetch:           {kerr.NotLeaderForPartition, kerr.KafkaStorageError},
		kmsg.ListOffsets:     {kerr.NotLeaderForPartition},
		kmsg.OffsetFetch:     {kerr.UnstableOffsetCommit, kerr.CoordinatorLoadInProgress},
		kmsg.FindCoordinator: {kerr.CoordinatorNotAvailable},
		kmsg.JoinGroup:       {kerr.CoordinatorLoadInProgress},
		kmsg.SyncGroup:       {kerr.RebalanceInProgress},
		kmsg.Heartbeat:       {kerr.NotCoordinator, kerr.RebalanceInProgress, kerr.UnknownMemberID},
		kmsg.InitProducerID:  {kerr.ConcurrentTransactions, kerr.NotCoordinator},
		kmsg.TxnOffsetCommit: {kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut, kerr.IllegalGeneration, kerr.UnknownMemberID},
		kmsg.EndTxn:          {kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.InvalidProducerEpoch},
	} {
		for _, err := range errs {
			name := key.Name() + " " + err.Message
			force := due(name)
			handles[name] = cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{key}, Err: err, Count: -1, When: func(kmsg.Request) bool {
					strike := force || r.IntN(50) == 0
					force = false
					return strike
				},
			})
		}
	}
	return handles
}

// losses is a network whose connections break now and then, some of them with
// answers to what was done under way.
type losses struct {
	dial func(ctx context.Context, network, host string) (net.Conn, error)

	mu   sync.Mutex // guards the rest
	rng  *rand.Rand
	calm int // how much is still not lost: who opens a log hears of the first failure
}

func (l *losses) connect(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, host)
	if err != nil {
		return nil, err
	}
	return &lossy{conn, l}, nil
}

func (l *losses) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calm--
	return l.calm < 0 && l.rng.IntN(500) == 0
}

type lossy struct {
	net.Conn
	losses *losses
}

func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.losses.now() {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return n, err
}

func (c *lossy) Write(b []byte) (int, error) {
	if c.losses.now() {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return c.Conn.Write(b)
}
