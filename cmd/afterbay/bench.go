package main

import (
	"time"

	"github.com/afterbay/afterbay/internal/lab/bench"
	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/process"
)

type benchCommand struct {
	Work        string  `help:"Work to measure: baseline (also used to compare other systems), fraud (the work of the demo) or moderation (texts)." enum:"baseline,fraud,moderation" default:"baseline"`
	Dir         string  `help:"Folder to work in, on the disk to measure; it is removed afterwards. The default is a temporary folder." placeholder:"DIR"`
	Events      int     `help:"Events to measure, if --rate is 0." default:"1000000"`
	Warmup      int     `help:"Events to process before the measurement, so that most users are known." default:"500000"`
	Seed        uint64  `help:"Seed of the generator." default:"1"`
	Users       int     `help:"Users of the baseline." default:"100000"`
	Zipf        float64 `help:"The share of the baseline's user of rank k is proportional to k^-zipf; 0 gives all users the same share." default:"1"`
	Exact       bool    `help:"Use exact windows instead of windows in panes."`
	Repartition int32   `help:"Partitions of the repartition topic: events are copied to it, then read in the order of their times. 0 does not repartition. With --rate, each partition of the input has events at random times." default:"0"`
	Order       string  `help:"Order of the repartitioned events." enum:"time,arrival" default:"time"`
	Busy        int32   `help:"How many of the 4 partitions of the input have events, with --rate and --repartition. The others are idle." default:"4"`
	Engine      string  `help:"Measure on the brokers of kafka://HOST:PORT, or of a pipeline file, instead of a log in a folder. The command deletes the topics that it creates there." placeholder:"URL"`
	Parallelism int     `help:"Members of the group of each pipeline in this process, which share its partitions; 0 is one per core." default:"0"`
	scheduleFlags
	tuningFlags
	Digest     bool   `help:"Print digests of all outputs and of the whole state, if --rate is 0: equal work has equal digests."`
	CPUProfile string `help:"Write a CPU profile of the measurement to this file, for go tool pprof and for profile-guided builds." placeholder:"FILE"`
}

// scheduleFlags set how events arrive and which limits must hold meanwhile.
type scheduleFlags struct {
	Rate     int           `help:"Events per second on a fixed schedule, to measure latency; 0 measures throughput on a log that is filled first." default:"0"`
	Duration time.Duration `help:"How long to keep the rate." default:"10s"`
	Part     time.Duration `help:"Print separate figures for each part of this length, if the rate is kept for longer." default:"1m"`
	Steady   bool          `help:"Exit with 1 if memory or files grow after the third part."`
	MaxLag   time.Duration `help:"With --rate: exit with 1 if the pipeline was behind for longer than this, checked every second; 0 does not check." default:"0" placeholder:"DURATION"`
}

// tuningFlags override options of the pipeline and the engine.
type tuningFlags struct {
	CommitInterval time.Duration `help:"Commit interval; 0 is the pipeline's value." default:"0"`
	Idle           time.Duration `help:"How long a partition of the input has no event before it is idle, with --repartition; 0 is the pipeline's value." default:"0"`
	Delivery       string        `help:"Delivery of the pipeline, with --engine." enum:"exactly-once,at-least-once,at-most-once," default:"" placeholder:"MODE"`
	Keys           int           `help:"Maximum of decoded keys in memory in each partition; 0 is the engine's default." default:"0"`
	StateMemory    int64         `help:"Maximum of bytes of state in memory, divided as by afterbay run; 0 is the engine's default." default:"0" placeholder:"BYTES"`
	RetentionBytes int64         `help:"Maximum of bytes of log to keep; 0 keeps all." default:"0" placeholder:"BYTES"`
}

// Run measures, and prints a line for each figure: name, value, unit.
func (c *benchCommand) Run(a *app) error {
	if err := c.validate(); err != nil {
		return err
	}
	flags := engineFlags{c.Engine}
	engine, err := flags.resolve(nil)
	if err != nil {
		return err
	}
	if !engine.Shared() && c.Delivery != "" {
		return usage("--delivery needs --engine kafka://HOST:PORT: the log in a folder commits outputs with their step")
	}
	if engine.Shared() && c.RetentionBytes > 0 {
		return usage("--retention-bytes applies only to the log in a folder")
	}
	options := bench.Options{
		Work: c.Work, Dir: c.Dir, Events: c.Events, Warmup: c.Warmup, Seed: c.Seed, Users: c.Users, Zipf: c.Zipf, Exact: c.Exact,
		Repartition: c.Repartition, Order: c.Order, Busy: c.Busy,
		Parallelism: c.Parallelism, Schedule: bench.Schedule(c.scheduleFlags), Tuning: bench.Tuning(c.tuningFlags), Digest: c.Digest,
		CPUProfile: c.CPUProfile,
	}
	return bench.Measure(a.ctx, &options, a.program(engine))
}

func (c *benchCommand) validate() error {
	if c.Events < 1 || c.Rate < 0 || c.MaxLag < 0 || c.Duration <= 0 || c.CommitInterval < 0 || c.Part <= 0 || c.Keys < 0 || c.Warmup < 0 {
		return usage("--events, --duration and --part must be above 0; --rate, --warmup, --commit-interval and --keys 0 or more")
	}
	switch {
	case c.Work != "baseline" && (c.Users != 100_000 || c.Zipf != 1):
		return usage("--users and --zipf need --work baseline")
	case c.Repartition < 0 || c.Repartition > 1024:
		return usage("--repartition %d: use 0 to 1024", c.Repartition)
	case c.Repartition == 0 && (c.Order != "time" || c.Busy != 4 || c.Idle != 0):
		return usage("--order, --busy and --idle need --repartition")
	case c.Repartition > 0 && c.Rate > 0 && c.Work != "baseline":
		return usage("--repartition with --rate needs --work baseline: only its events have due times")
	case c.Busy < 1 || c.Busy > 4 || c.Idle < 0:
		return usage("--busy, --idle: use 1 to 4, and 0 or more")
	case c.Users < 1:
		return usage("--users %d: use 1 or more", c.Users)
	case c.Steady && (c.Rate == 0 || c.Duration < 3*c.Part):
		return usage("--steady compares with the third part: use --rate, and --duration of at least three times --part, which is %s", c.Part)
	case c.MaxLag > 0 && c.Rate == 0:
		return usage("--max-lag needs --rate: without it, the pipeline begins far behind a full log")
	case c.Digest && c.Rate > 0:
		return usage("--digest needs --rate 0: events that are appended concurrently have no fixed order")
	}
	if err := (baseline.Options{Users: c.Users, Zipf: c.Zipf}).Validate(); err != nil {
		return usage("--users, --zipf: %v", err)
	}
	if err := (embedded.Options{StateMemoryBytes: c.StateMemory - c.StateMemory/4, RetainBytes: c.RetentionBytes}).Validate(); err != nil {
		return usage("--state-memory, --retention-bytes: %v", err)
	}
	return nil
}

// program returns the parts of this program that a measurement needs.
func (a *app) program(e *process.Engine) *bench.Program {
	return &bench.Program{Out: a.stdout, Err: a.stderr, Loader: a.loader(), Engine: e}
}
