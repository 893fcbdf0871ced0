package e2e_test

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// BenchmarkBaseline runs the baseline work over a log that is filled before, and
// reports CPU time of the whole process by event: an event is an iteration.
func BenchmarkBaseline(b *testing.B) {
	log := openLog(b, "embedded", b.TempDir())
	defer closeLog(b, log)
	runner, err := builtin.New(baselinePipeline(b), pipeline.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := runner.CreateTopics(b.Context(), log); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for n < b.N {
		n += appendLines(b, log, runner.Input(), "user_id", filepath.Join("internal/e2e/testdata/baseline", "events.ndjson.gz"))
	}
	start := cpu(b)
	b.ResetTimer()
	runUntilIdle(b, runner, log)
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-start).Nanoseconds())/float64(n), "cpu-ns/event")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBacklogOfPartitions drains a backlog of four partitions, by another key than that of the
// records: with as many events in each partition, and with twenty times as many in one as in each
// other one, over the same time. An event is an iteration.
func BenchmarkBacklogOfPartitions(b *testing.B) {
	for name, partition := range map[string]func(i int) int{
		"even":   func(i int) int { return i % 4 },
		"skewed": func(i int) int { return max(0, i%23-19) },
	} {
		b.Run(name, func(b *testing.B) {
			events := eventtime.Payments(1, b.N, 4)
			for i := range events {
				events[i].Partition = partition(i)
			}
			log := openLog(b, "embedded", b.TempDir())
			defer closeLog(b, log)
			runners, err := newOrdered(orderedMerchants, orderedSettings{members: 1, partitions: 4, interval: 2 * time.Millisecond, idle: "100ms"})
			if err == nil {
				err = runners[0].CreateTopics(b.Context(), log)
			}
			if err != nil {
				b.Fatal(err)
			}
			for chunk := range slices.Chunk(paymentRecords(events), 1000) {
				if err := log.Append(b.Context(), chunk...); err != nil {
					b.Fatal(err)
				}
			}
			start := cpu(b)
			b.ResetTimer()
			runUntilIdle(b, runners[0], log)
			b.StopTimer()
			b.ReportMetric(float64((cpu(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/event")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			if n := runners[0].Counts().Outputs; n != uint64(b.N) {
				b.Fatalf("%d rows of %d events", n, b.N)
			}
		})
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
