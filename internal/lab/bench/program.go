package bench

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/model"
)

// Program is the parts of the running program that a measurement needs.
type Program struct {
	Out, Err io.Writer
	Loader   *process.Loader
	Engine   *process.Engine // the log to measure

	// Only for afterbay placement.
	Events func(path, format string) (*ingest.Source, error)
	Load   func(path string) (model.Model, error)
	Self   func(ctx context.Context, args ...string) (*exec.Cmd, error) // returns a command that runs this program
	Ended  func(code int, err error) error                              // wraps an error in the class of an exit code
}

// Options select the workload and the measurement. The help of the flags of afterbay bench
// describes them.
type Options struct {
	Work        string // baseline, fraud or moderation
	Dir         string
	Events      int
	Warmup      int
	Seed        uint64
	Users       int
	Zipf        float64
	Exact       bool
	Repartition int32
	Order       string // order of repartitioned events, as in input.time.order
	Busy        int32  // partitions of a repartitioned input that receive events on a schedule
	Parallelism int
	Schedule
	Tuning
	Digest     bool
	CPUProfile string // file for a CPU profile of the measured time; "" writes none
}

// Schedule is the arrival of events in a latency measurement, and the limits that must hold
// meanwhile.
type Schedule struct {
	Rate     int // events per second; 0 measures throughput
	Duration time.Duration
	Part     time.Duration
	Steady   bool
	MaxLag   time.Duration
}

// Tuning overrides options of the pipeline and its log; 0 and "" change nothing.
type Tuning struct {
	CommitInterval time.Duration
	Idle           time.Duration
	Delivery       string
	Keys           int
	StateMemory    int64
	RetentionBytes int64
}

// describe returns a comment line that describes the measurement.
func (c *Options) describe(onKafka bool) string {
	switch {
	case c.Rate > 0 && c.Repartition > 0:
		return fmt.Sprintf("# %s: %d events/s at random times (the first %v do not count), in %d of 4 partitions; they are repartitioned to %d partitions and read in the order of %s. "+
			"Events due within a millisecond are appended together, latency counts from each one's own time, which is its event time, until its decision is durable and was read", c.Work, c.Rate, c.settle(), c.Busy, c.Repartition, c.Order)
	case onKafka && c.Rate > 0:
		return fmt.Sprintf("# %s on Kafka: %d events/s by a schedule (the first %v do not count); events due within a millisecond are appended together, latency counts from each one's own time "+
			"until a reader of committed records has its decision. cpu_cores_used is the whole process, harness_cores_used the same schedule appended without pipeline and reader; the brokers count in neither", c.Work, c.Rate, c.settle())
	case onKafka:
		return fmt.Sprintf("# %s on Kafka: topics that are filled before, %d events measured after %d; brokers do not count", c.Work, c.Events, c.Warmup)
	case c.Rate > 0:
		return fmt.Sprintf("# %s: %d events/s by a schedule; events due within a millisecond are appended together, latency counts from each one's own time. "+
			"cpu_cores_used is the whole process, harness_cores_used the generator's schedule without appends and the reader's work, measured alone", c.Work, c.Rate)
	}
	return fmt.Sprintf("# %s: a log that is filled before, %d events measured after %d", c.Work, c.Events, c.Warmup)
}
