package kafka

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// real is the broker of the tests that need a real one.
var real = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1", "group.min.session.timeout.ms=100", "log.cleaner.backoff.ms=50",
	"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=6000", "group.consumer.min.heartbeat.interval.ms=50", "group.consumer.heartbeat.interval.ms=100"}}}

func TestMain(m *testing.M) { os.Exit(real.Run(m)) }

// broker returns the address of a real broker that holds nothing.
func broker(t *testing.T) []string {
	t.Helper()
	cluster := real.Get(t)
	cluster.Empty(t)
	return cluster.Addresses()
}

// onBroker are options for a real broker, whose groups and commits take longer.
func onBroker(t *testing.T) Options {
	t.Helper()
	o := conforming(broker(t))
	o.Timeouts.Rebalance, o.Timeouts.Heartbeat = 400*time.Millisecond, 50*time.Millisecond
	return o
}

// eachBroker runs a test on a broker in this process and on a real one.
func eachBroker(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("fake", func(t *testing.T) { test(t, conforming(fake(t))) })
	t.Run("broker", func(t *testing.T) { test(t, onBroker(t)) })
}

func TestConformanceOnABroker(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log { return openAt(t, onBroker(t)) }, streamtest.Remote)
}

func TestConformanceDurableOnABroker(t *testing.T) {
	o := onBroker(t)
	o.Dir = t.TempDir()
	streamtest.RunDurable(t, func(t *testing.T) stream.Log { return openAt(t, o) }, streamtest.Remote)
}

func TestConformanceOfServerGroupsOnABroker(t *testing.T) {
	if os.Getenv("AFTERBAY_PROVE") == "" {
		t.Skip("NOT RUN: it takes minutes; set AFTERBAY_PROVE=1")
	}
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprintf("static=%v", static), func(t *testing.T) {
			streamtest.Run(t, func(t *testing.T) stream.Log {
				o := onBroker(t)
				if o.ServerGroups = true; static {
					o.Dir = t.TempDir()
				}
				return openAt(t, o)
			}, streamtest.Remote)
		})
	}
}
