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

// Program is what a measurement gets of the program that it runs in.
type Program struct {
	Out, Err io.Writer
	Loader   *process.Loader
	Engine   *process.Engine // whose log is measured

	// Of afterbay placement alone.
	Events func(path, format string) (*ingest.Source, error)
	Load   func(path string) (model.Model, error)
	Self   func(ctx context.Context, args ...string) (*exec.Cmd, error) // this program
	Ended  func(code int, err error) error                              // gives an error the class of an exit code
}

// Options say what is measured, and of which work. The flags of afterbay bench say what each is.
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
	Order       string // of copies, as of input.time.order
	Busy        int32  // partitions of the input that get events by a schedule, where copies are read
	Parallelism int
	Schedule
	Tuning
	Digest     bool
	CPUProfile string // file for a profile of the CPU while events are measured; "" is none
}

// Schedule is how events come where latency is measured, and what is to hold meanwhile.
type Schedule struct {
	Rate     int // events a second; 0 measures throughput
	Duration time.Duration
	Part     time.Duration
	Steady   bool
	MaxLag   time.Duration
}

// Tuning is what the pipeline and its log have in place of their own options; 0 and "" leave them.
type Tuning struct {
	CommitInterval time.Duration
	Idle           time.Duration
	Delivery       string
	Keys           int
	StateMemory    int64
	RetentionBytes int64
}

// describe is the line of comment that says what the figures are of.
func (c *Options) describe(onKafka bool) string {
	switch {
	case c.Rate > 0 && c.Repartition > 0:
		return fmt.Sprintf("# %s: %d events/s at random times, the first %v of which do not count, in %d of 4 partitions; they are copied to %d partitions and read in the order of %s. "+
			"Events due within a millisecond are appended together, latency counts from each one's own time, which is its event time, until its decision is durable and was read", c.Work, c.Rate, c.settle(), c.Busy, c.Repartition, c.Order)
	case onKafka && c.Rate > 0:
		return fmt.Sprintf("# %s on Kafka: %d events/s by a schedule of which the first %v do not count; events due within a millisecond are appended together, latency counts from each one's own time "+
			"until a reader of committed records has its decision. cpu_cores_used is the whole process, harness_cores_used the same schedule appended without pipeline and reader; the brokers count in neither", c.Work, c.Rate, c.settle())
	case onKafka:
		return fmt.Sprintf("# %s on Kafka: topics that are filled before, %d events measured after %d; brokers do not count", c.Work, c.Events, c.Warmup)
	case c.Rate > 0:
		return fmt.Sprintf("# %s: %d events/s by a schedule; events due within a millisecond are appended together, latency counts from each one's own time. "+
			"cpu_cores_used is the whole process, harness_cores_used the generator's schedule without appends and the reader's work, measured alone", c.Work, c.Rate)
	}
	return fmt.Sprintf("# %s: a log that is filled before, %d events measured after %d", c.Work, c.Events, c.Warmup)
}
