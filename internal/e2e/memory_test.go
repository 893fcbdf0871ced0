package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/sys/procfs"
	"github.com/afterbay/afterbay/stream"
)

var (
	memoryKeys  = flag.Int("memory.keys", 100_000, "keys of the benchmark of memory")
	memoryLimit = flag.Int64("memory.limit", 1<<30, "state limit of the benchmark of memory, in bytes")
	memoryStep  = flag.Duration("memory.step", 20*time.Microsecond, "event time between events of the benchmark of memory")
)

// BenchmarkMemory feeds the baseline work twice as many events as there are
// keys, one to three to each, all keys alike, and reports what the process
// takes when the last is done with, and what an event cost in each pass over the
// keys. It is to be run once: -benchtime 1x.
func BenchmarkMemory(b *testing.B) {
	keys := *memoryKeys
	log, err := embedded.Open(b.TempDir(), embedded.Options{RetainBytes: 1 << 30, StateMemoryBytes: *memoryLimit / 4 * 3})
	if err != nil {
		b.Fatal(err)
	}
	defer closeLog(b, log)
	runner, err := builtin.New(baselinePipeline(b), pipeline.Options{KeyBytes: *memoryLimit / 4})
	if err != nil {
		b.Fatal(err)
	}
	if err := runner.CreateTopics(b.Context(), log); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, log) }()
	begin, events := time.Now(), 0
	for pass := range 3 {
		from, before := events, cpu(b)
		events = feed(b, log, runner, events, keys, pass)
		b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(events-from), fmt.Sprintf("cpu-ns/event-%d", pass+1))
	}
	if err := runner.WaitIdle(ctx, log); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(events)/time.Since(begin).Seconds(), "events/s")
	rss, peak := status(b, "VmRSS"), status(b, "VmHWM")
	b.ReportMetric(float64(rss)/1e6, "rss-MB")
	b.ReportMetric(float64(peak)/1e6, "peak-rss-MB")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
	b.ReportMetric(float64(m.HeapAlloc)/float64(keys), "heap-B/key")
	b.ReportMetric(float64(log.Stats().State.Bytes)/1e6, "state-MB")
	b.ReportMetric(float64(log.Stats().State.Evictions), "state-evictions")
	b.ReportMetric(float64(runner.Snapshot().Memory.KeyBytes+runner.Snapshot().Memory.ExpiryBytes)/1e6, "keys-MB")
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// feed appends the events of a pass: of all keys, of two thirds, of a third. It
// keeps near behind it what the pipeline has done.
func feed(b *testing.B, log stream.Log, runner *pipeline.Runner, event, keys, pass int) int {
	records := make([]stream.Record, 0, 1024)
	flush := func() {
		if err := log.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
		records = records[:0]
		for event-int(runner.Counts().Events) > 100_000 {
			time.Sleep(time.Millisecond)
		}
	}
	key := 0
	for range keys {
		key = (key + 7_368_787) % keys // a prime, so every key comes once, far from the one before
		if key%3 < pass {
			continue
		}
		value := fmt.Appendf(nil, `{"event_id": "e%09d", "user_id": "u%08d", "ts": %d, "amount": %d.25, "country": "DE", "channel": "app", "device": "ios"}`,
			event, key, 1_760_000_000_000+int64(event)*memoryStep.Microseconds()/1000, 1+key%97)
		records = append(records, stream.Record{
			Partition: stream.Partition{Topic: runner.Input(), Index: stream.ByKey},
			Time:      time.UnixMilli(1_760_000_000_000 + int64(event)*memoryStep.Microseconds()/1000),
			Key:       fmt.Appendf(nil, "u%08d", key), Value: value,
		})
		event++
		if len(records) == cap(records) {
			flush()
		}
	}
	flush()
	return event
}

// status returns a size that the kernel knows of this process, in bytes.
func status(b testing.TB, name string) int64 {
	size, err := procfs.Memory(os.Getpid(), name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return size
}
