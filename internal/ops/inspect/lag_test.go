package inspect_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

const shops = `pipeline: shops
input:
  topic: payments
  partitions: 2
  key: shop
  repartition: 1
  time: {field: at, unit: s, idle: %s}
  fields: {shop: string, at: int}
steps:
  - emit: {topic: seen, value: [shop, at]}
`

// TestLagOfAPipelineThatDoesNotRunIsOfEvents has one source partition hold two events of the other one
// when the pipeline ends, and then none. The repartition topic has marks behind the events.
func TestLagOfAPipelineThatDoesNotRunIsOfEvents(t *testing.T) {
	t.Run("memory", func(t *testing.T) { lagIsOfEvents(t, memory.New(memory.Options{})) })
	t.Run("embedded", func(t *testing.T) {
		log, err := embedded.Open(t.TempDir(), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lagIsOfEvents(t, log)
	})
	t.Run("kafka", func(t *testing.T) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs(), Timeouts: kafka.Timeouts{Heartbeat: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		lagIsOfEvents(t, log)
	})
}

func lagIsOfEvents(t *testing.T, log inspect.Log) {
	defer log.Close()
	before := time.Now()
	ran(t, log, "never", []stream.Record{payment(0, 2), payment(1, 12)}, 1)
	ran(t, log, "never", []stream.Record{payment(0, 22), payment(0, 50)}, 2)
	copies := observe.Read{Group: "shops", Topic: "shops.repartition"}
	records, lag := behind(t, log, copies)
	if records <= 2 || lag.Records != 2 || lag.Seconds <= 0 || lag.Seconds > time.Since(before).Seconds() {
		t.Errorf("of %d records, lag %+v", records, lag)
	}
	ran(t, log, "100ms", nil, 0)
	if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: copies.Topic}, Headers: []stream.Header{{Key: "afterbay-frontier"}}}); err != nil { // as a process writes that ends then
		t.Fatal(err)
	}
	if records, lag = behind(t, log, copies); records == 0 || lag.Records != 0 || lag.Seconds != 0 {
		t.Errorf("of %d records, lag %+v", records, lag)
	}
}

func payment(partition int32, at int) stream.Record {
	return stream.Record{Partition: stream.Partition{Topic: "payments", Index: partition}, Time: time.Now(), Value: fmt.Appendf(nil, `{"shop":"s","at":%d}`, at)}
}

// TestLagLooksAtSoManyRecords has no event, and 10 marks more than are looked at.
func TestLagLooksAtSoManyRecords(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	runners := runnersOf(t, log, "never")
	marks := make([]stream.Record, 1<<16+10)
	for i := range marks {
		marks[i] = stream.Record{Partition: stream.Partition{Topic: "shops.repartition"}, Headers: []stream.Header{{Key: "afterbay-frontier"}}}
	}
	if err := log.Append(t.Context(), marks...); err != nil {
		t.Fatal(err)
	}
	lags, err := inspect.NewLocal(log, runners, nil, nil).Lag(t.Context(), "shops")
	if i := slices.IndexFunc(lags, func(l observe.Lag) bool { return l.Topic == "shops.repartition" }); err != nil || lags[i].Records != 10 {
		t.Errorf("%+v, %v", lags, err)
	}
}

// runnersOf loads the pipeline, and makes its topics.
func runnersOf(t *testing.T, log inspect.Log, idle string) []*pipeline.Runner {
	t.Helper()
	file := t.TempDir() + "/shops.yaml"
	if err := os.WriteFile(file, fmt.Appendf(nil, shops, idle), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(file, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runners, err := pipeline.NewChain(loaded.Pipelines, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.CreateTopics(t.Context(), log, runners); err != nil {
		t.Fatal(err)
	}
	return runners
}

// ran runs the pipeline until it has copied more events, and holds as many as it is to hold.
func ran(t *testing.T, log inspect.Log, idle string, events []stream.Record, held int) {
	t.Helper()
	runners := runnersOf(t, log, idle)
	if err := log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- pipeline.RunChain(ctx, log, runners) }()
	local := inspect.NewLocal(log, runners, nil, nil)
	for done := false; !done; {
		select {
		case err := <-ended:
			t.Fatal("the pipeline ended: ", err)
		case <-time.After(5 * time.Millisecond):
		}
		lags, err := local.OwnLag(ctx)
		if err != nil {
			t.Fatal(err)
		}
		copied := !slices.ContainsFunc(lags, func(l observe.Lag) bool { return l.Topic == "payments" && l.Records > 0 })
		waits := slices.ContainsFunc(lags, func(l observe.Lag) bool { return l.Topic == "shops.repartition" && l.Records == int64(held) })
		done = copied && waits && runners[0].Order(time.Now()).Held == held
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// behind returns how many records of the repartition topic are not committed, and its lag.
func behind(t *testing.T, log inspect.Log, of observe.Read) (records int64, lag observe.Lag) {
	t.Helper()
	var meter observe.LagMeter
	all, err := meter.Measure(t.Context(), log, of)
	if err != nil {
		t.Fatal(err)
	}
	lags, err := inspect.NewLocal(log, nil, nil, nil).Lag(t.Context(), of.Group)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(lags, func(l observe.Lag) bool { return l.Topic == of.Topic })
	return all[0].Records, lags[i]
}
