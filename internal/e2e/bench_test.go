package e2e_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
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

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
