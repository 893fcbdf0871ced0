package e2e_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// rebalancing is a process of a pipeline in a group of processes.
type rebalancing struct {
	*pipeline.Runner
	log   *kafka.Log
	stop  context.CancelFunc
	ended chan error
}

func startRebalancing(t *testing.T, brokers []string, p lang.Pipeline) *rebalancing {
	t.Helper()
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers, Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond, Rebalance: 300 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "customers", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &rebalancing{runner, log, stop, make(chan error, 1)}
	go func() { r.ended <- runner.Run(ctx, log) }()
	return r
}

// end stops the process.
func (r *rebalancing) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	r.Close()
	closeLog(t, r.log)
}

// waits returns when the process waits for the registry: it has partitions, and reads rows.
func (r *rebalancing) waits(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(time.Minute); r.Schemas.Stats().Faults == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the process has no partitions: %+v", r.Snapshot())
		}
	}
}

// outputs returns the values of the output, sorted, when there are at least so many.
func (r *rebalancing) outputs(t *testing.T, n int) string {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var got []string
		for i := range int32(4) {
			for _, of := range readPartition(t, r.log, stream.Partition{Topic: "out", Index: i}) {
				got = append(got, string(of.Value))
			}
		}
		if slices.Sort(got); len(got) >= n || time.Now().After(until) {
			return strings.Join(got, ";")
		}
	}
}

// TestGroupRebalancesWhileRowsWait has a second process join while the first one waits for the schema of a row. The second
// gets partitions, and when the registry is back both go on: each event has its row and one output.
func TestGroupRebalancesWhileRowsWait(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	c := newCustomers(t, server)
	away := outage(server, "")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	p := tierOf(server, envelope.Debezium)
	p.Input.Partitions = 4
	first := startRebalancing(t, cluster.ListenAddrs(), p)
	defer first.end(t)
	var want []string
	send := func(customer int, tier string) {
		of := strconv.Itoa(customer)
		r := orderOf(of)
		r.Partition.Index = stream.ByKey
		appendInput(t, first.log, p, r)
		want = append(want, `{"customer":`+of+`,"who_tier":"`+tier+`"}`)
	}
	rows := func(tier string) {
		for customer := range 12 {
			if err := first.log.Append(t.Context(), c.change("u", int64(customer), nil, tier)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows("gold")
	for customer := range 12 {
		send(customer, "gold")
	}
	first.waits(t)
	second := startRebalancing(t, cluster.ListenAddrs(), p)
	defer second.end(t)
	second.waits(t)
	if got := first.outputs(t, 0); got != "" {
		t.Errorf("while the registry was away: %s", got)
	}
	away.Store(false)
	if got := first.outputs(t, 12); got != strings.Join(slices.Sorted(slices.Values(want)), ";") {
		t.Errorf("when it is back: %s", got)
	}
	rows("free")
	for until := time.Now().Add(time.Minute); ; { // the first asks the registry again after a delay, and then joins again
		for customer := range 12 {
			send(customer, "free")
		}
		if got := first.outputs(t, len(want)); got != strings.Join(slices.Sorted(slices.Values(want)), ";") {
			t.Fatalf("in the end: %s", got)
		}
		if first.Snapshot().Counts.Events > 0 || time.Now().After(until) {
			break
		}
	}
	if a, b := first.Snapshot().Counts, second.Snapshot().Counts; a.Events == 0 || b.Events == 0 || a.DeadLetters+b.DeadLetters > 0 {
		t.Errorf("the first has %+v, the second %+v", a, b)
	}
}
