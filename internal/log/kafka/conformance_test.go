package kafka

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// fake starts a broker in this process, until the test ends.
func fake(t *testing.T, more ...kfake.Opt) []string { return fakeWith(t, more...).ListenAddrs() }

func fakeWith(t *testing.T, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// conforming returns options as the suite wants them.
func conforming(brokers []string) Options {
	return Options{
		Brokers:  brokers,
		Logger:   slog.New(slog.DiscardHandler),
		Timeouts: Timeouts{Rebalance: 75 * time.Millisecond, Heartbeat: 10 * time.Millisecond},
		State:    LocalState{CheckpointEvery: 20 * time.Millisecond},
	}
}

func openAt(t *testing.T, o Options) stream.Log {
	t.Helper()
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log { return openAt(t, conforming(fake(t))) }, streamtest.Remote)
}

func TestConformanceOfStaticMembers(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log {
		o := conforming(fake(t))
		o.Dir = t.TempDir()
		return openAt(t, o)
	}, streamtest.Remote)
}

func TestConformanceDurable(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		t.Run(fmt.Sprintf("Dir=%v", dir != ""), func(t *testing.T) {
			o := conforming(fake(t))
			o.Dir = dir
			streamtest.RunDurable(t, func(t *testing.T) stream.Log { return openAt(t, o) }, streamtest.Remote)
		})
	}
}

func TestConformanceOfOtherDeliveries(t *testing.T) {
	for _, delivery := range []Delivery{AtLeastOnce, AtMostOnce} {
		t.Run(fmt.Sprint(delivery), func(t *testing.T) {
			streamtest.Run(t, func(t *testing.T) stream.Log {
				o := conforming(fake(t))
				o.Delivery = delivery
				return openAt(t, o)
			}, streamtest.Remote)
		})
	}
}

// serverGroups lets brokers in this process assign partitions, and look for
// silent members as often as tests want it.
func serverGroups(t *testing.T, member time.Duration) Options {
	t.Helper()
	o := conforming(fake(t, kfake.BrokerConfigs(map[string]string{
		"group.consumer.heartbeat.interval.ms": "10", "group.consumer.session.timeout.ms": fmt.Sprint(member.Milliseconds()),
	})))
	o.ServerGroups = true
	return o
}

func TestConformanceOfServerGroups(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprintf("static=%v", static), func(t *testing.T) {
			streamtest.Run(t, func(t *testing.T) stream.Log {
				o := serverGroups(t, 6*time.Second)
				if static {
					o.Dir = t.TempDir()
				}
				return openAt(t, o)
			}, streamtest.Remote)
		})
	}
}
