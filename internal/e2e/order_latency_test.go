package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

var (
	latencyTime = flag.Duration("latency.time", time.Second, "how long BenchmarkLatencyOfOrderExamples appends events")
	latencySeed = flag.Uint64("latency.seed", 1, "of their times")
)

// BenchmarkLatencyOfOrderExamples appends events to the partitions of the topics of each example at
// random times, which are the events' own. It reports how long they take from their append until their
// transaction is durable, and how much of that they wait for their turn.
func BenchmarkLatencyOfOrderExamples(b *testing.B) {
	for _, engine := range []string{"embedded", "kafka"} {
		for _, name := range []string{"queue-minutes", "ads", "visits", "fraud"} {
			for _, rate := range []int{100, 1} {
				b.Run(fmt.Sprintf("%s/%s/%d", engine, name, rate), func(b *testing.B) {
					for range b.N {
						latencyOfExample(b, engine, name, rate)
					}
				})
			}
		}
	}
}

// openFor opens a log of an engine; Kafka is not there without its variable.
func openFor(b *testing.B, engine string) (stream.Log, error) {
	if engine == "embedded" {
		return embedded.Open(b.TempDir(), embedded.Options{})
	}
	if os.Getenv("AFTERBAY_KAFKA") == "" {
		b.Skip("NOT RUN: set AFTERBAY_KAFKA, as CONTRIBUTING.md says")
	}
	cluster := realKafka.Get(b)
	cluster.Empty(b)
	return kafka.Open(b.Context(), kafka.Options{Brokers: cluster.Addresses()})
}

func latencyOfExample(b *testing.B, engine, name string, rate int) {
	log, err := openFor(b, engine)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	file, err := config.Load("examples/order/"+name+".yaml", builtin.Kinds())
	if err != nil {
		b.Fatal(err)
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{})
	if err != nil {
		b.Fatal(file.Explain(0, err))
	}
	if err := runner.CreateTopics(b.Context(), log); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, log) }()
	var feeds sync.WaitGroup
	for _, topic := range runner.Inputs() {
		for i := range int32(4) {
			feeds.Go(func() { feedAtRandom(ctx, b, log, stream.Partition{Topic: topic, Index: i}, rate) })
		}
	}
	time.Sleep(*latencyTime)
	spent := runner.Snapshot().Spent // what still waits is not counted
	stop()
	feeds.Wait()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if c := runner.Counts(); c.DeadLetters != 0 {
		b.Fatalf("%d dead letters", c.DeadLetters)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent.Events), "events")
	b.ReportMetric(float64(runner.Counts().Forced), "forced")
	b.ReportMetric(ms(spent.Whole.P50), "ms-p50")
	b.ReportMetric(ms(spent.Whole.P99), "ms-p99")
	for _, phase := range spent.By {
		if phase.Phase == observe.Order {
			b.ReportMetric(ms(phase.P50), "ms-order-p50")
			b.ReportMetric(ms(phase.P99), "ms-order-p99")
		}
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		b.Logf("load average %s", strings.Fields(string(load))[0])
	}
}

// feedAtRandom appends so many events a second to a partition, at random times.
func feedAtRandom(ctx context.Context, b *testing.B, log stream.Log, p stream.Partition, rate int) {
	random := rand.New(rand.NewPCG(*latencySeed, uint64(p.Index)<<32|uint64(len(p.Topic))))
	start, due := time.Now(), time.Duration(0)
	for n := 0; ; n++ {
		due += time.Duration(random.ExpFloat64() / float64(rate) * float64(time.Second))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(start.Add(due))):
		}
		at := time.Now()
		who := random.IntN(1000)
		value := fmt.Sprintf(`{"customer":"c%[1]d","user":"c%[1]d","card":"c%[1]d","queue":"q%[2]d","merchant":"m%[2]d","device":"d%[1]d","ad":"a%[2]d","id":"i%[3]d-%[4]d","tx":"t%[3]d-%[4]d","imp":"i%[3]d-%[4]d","mood":0.5,"total":7.5,"amount":9.25,"bid":0.5,"at":%[5]q,"ts":%[6]d}`, who, who%40, p.Index, n, at.UTC().Format(time.RFC3339Nano), at.UnixMilli())
		if err := log.Append(ctx, stream.Record{Partition: p, Key: fmt.Appendf(nil, "c%d", who), Value: []byte(value), Time: at}); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
}
