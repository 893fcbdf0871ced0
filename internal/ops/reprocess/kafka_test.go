package reprocess_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

var realKafka = kafkatest.Shared{Options: kafkatest.Options{Speed: os.Getenv("AFTERBAY_PROVE") != "", Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1", "group.min.session.timeout.ms=100"}}}

func TestMain(m *testing.M) { os.Exit(realKafka.Run(m)) }

// TestSwitchOnKafkaIsARollingRestart derives again in a process beside the one that
// runs, switches while that one ends, and goes on in a third.
func TestSwitchOnKafkaIsARollingRestart(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		rollingRestart(t, cluster.ListenAddrs(), 1000)
	})
	t.Run("broker", func(t *testing.T) {
		if os.Getenv("AFTERBAY_PROVE") == "" {
			t.Skip("NOT RUN: scripts/prove.sh does; set AFTERBAY_PROVE=1")
		}
		cluster := realKafka.Get(t)
		cluster.Empty(t)
		rollingRestart(t, cluster.Addresses(), 3000)
	})
}

// TestStateAndTopicsOnKafka begins with the state of other generations, and derives
// into other topics.
func TestStateAndTopicsOnKafka(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, log generation.Log)
	}{{"state", beginWithState}, {"live", beginWithLive}, {"topics", intoTopics}} {
		t.Run(test.name, func(t *testing.T) {
			run := func(t *testing.T, brokers []string) {
				log, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers, Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond}})
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				test.do(t, log)
			}
			t.Run("fake", func(t *testing.T) {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
				if err != nil {
					t.Fatal(err)
				}
				defer cluster.Close()
				run(t, cluster.ListenAddrs())
			})
			t.Run("broker", func(t *testing.T) {
				if os.Getenv("AFTERBAY_PROVE") == "" {
					t.Skip("NOT RUN: scripts/prove.sh does; set AFTERBAY_PROVE=1")
				}
				cluster := realKafka.Get(t)
				cluster.Empty(t)
				run(t, cluster.Addresses())
			})
		})
	}
}

func rollingRestart(t *testing.T, brokers []string, n int) {
	open := func() *kafka.Log {
		log, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers, Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	first, second := open(), open()
	defer first.Close()
	defer second.Close()
	old := newRunner(t, payments(20))
	stop := start(t, first, old)
	mustAppend(t, first, events(0, n))
	idle(t, first, old)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lives []generation.Live
	caught, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for p, err := range reprocess.Run(ctx, second, newRunner(t, payments(40)), reprocess.Job{Switch: true}) {
			if err != nil {
				t.Error(err)
			}
			if lives = p.Live; p.CaughtUp {
				select {
				case <-caught:
				default:
					close(caught)
				}
			}
		}
	}()
	select {
	case <-caught:
	case <-ended:
	}
	for part := range slices.Chunk(events(n, 200), 10) { // while some partitions are handed over
		if err := first.Append(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-ended
	if t.Failed() {
		return
	}
	if len(lives) != partitions {
		t.Fatalf("handed over: %v", lives)
	}
	third := open()
	defer third.Close()
	names, err := generation.Open(ctx, third)
	if err != nil {
		t.Fatal(err)
	}
	changed := newRunner(t, payments(40))
	stop = start(t, names, changed)
	mustAppend(t, third, events(n+200, 200))
	idle(t, names, changed)
	stop()
	checkSwitched(t, third, lives, n+400)
	view, err := generation.ViewOf(ctx, third, "out")
	if err != nil || view.Generation != 2 || view.Topic != "payments.g2.out" {
		t.Errorf("the view: %+v, %v", view, err)
	}
}
