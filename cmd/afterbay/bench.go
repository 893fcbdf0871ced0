package main

import (
	"time"

	"github.com/afterbay/afterbay/internal/lab/bench"
	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/process"
)

type benchCommand struct {
	Work        string  `help:"Work to measure: baseline, what peers are compared on, fraud, what the demo does, or moderation, texts." enum:"baseline,fraud,moderation" default:"baseline"`
	Dir         string  `help:"Folder to work in, on the disk to measure; it is removed after. The default is a temporary one." placeholder:"DIR"`
	Events      int     `help:"Events to measure, where --rate is 0." default:"1000000"`
	Warmup      int     `help:"Events before those, so that most users are known." default:"500000"`
	Seed        uint64  `help:"Seed of the generator." default:"1"`
	Users       int     `help:"Users of the baseline." default:"100000"`
	Zipf        float64 `help:"The baseline's user of rank k has a share in proportion to k^-zipf; 0 is all alike." default:"1"`
	Exact       bool    `help:"Exact windows in place of those in panes."`
	Repartition int32   `help:"Partitions of a topic that the events are copied to first, and read from in the order of their times; 0 copies nothing. With --rate, each partition of the input has events at random times." default:"0"`
	Order       string  `help:"Order in which copies are read." enum:"time,arrival" default:"time"`
	Busy        int32   `help:"Partitions of the input, of 4, that have events, with --rate and --repartition. The others are silent." default:"4"`
	Engine      string  `help:"Measure on the brokers of kafka://HOST:PORT, or of a pipeline file, in place of a log in a folder. Topics that it makes there are deleted after." placeholder:"URL"`
	Parallelism int     `help:"Members of the group of each pipeline in this process, which share its partitions; 0 is one per core." default:"0"`
	scheduleFlags
	tuningFlags
	Digest     bool   `help:"Print digests of all outputs and of the whole state, where --rate is 0: equal work has equal ones."`
	CPUProfile string `help:"Write a profile of the CPU while events are measured to this file, for go tool pprof and for builds by profile." placeholder:"FILE"`
}

// scheduleFlags set how events arrive and which limits must hold meanwhile.
type scheduleFlags struct {
	Rate     int           `help:"Events per second on a fixed schedule, to measure latency; 0 measures throughput on a log that is filled before." default:"0"`
	Duration time.Duration `help:"How long to keep the rate." default:"10s"`
	Part     time.Duration `help:"Figures of their own for each part of this length, where a rate is kept for longer." default:"1m"`
	Steady   bool          `help:"Exit with 1 unless memory and files stay level from the third part on."`
	MaxLag   time.Duration `help:"Exit with 1 where the pipeline, looked at every second of a rate, was behind for longer; 0 does not look." default:"0" placeholder:"DURATION"`
}

// tuningFlags override options of the pipeline and the engine.
type tuningFlags struct {
	CommitInterval time.Duration `help:"Commit interval; 0 is the pipeline's." default:"0"`
	Idle           time.Duration `help:"After how long without events a partition of the input is silent, with --repartition; 0 is the pipeline's." default:"0"`
	Delivery       string        `help:"Delivery of the pipeline, with --engine." enum:"exactly-once,at-least-once,at-most-once," default:"" placeholder:"MODE"`
	Keys           int           `help:"Most decoded keys in memory by partition; 0 is the engine's default." default:"0"`
	StateMemory    int64         `help:"Most bytes of state in memory, shared out as by run; 0 is the engine's default." default:"0" placeholder:"BYTES"`
	RetentionBytes int64         `help:"Most bytes of log to keep; 0 keeps all." default:"0" placeholder:"BYTES"`
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
		return usage("--retention-bytes is of the log in a folder")
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
		return usage("--events, --duration and --part are above 0, --rate, --warmup, --commit-interval and --keys not below")
	}
	switch {
	case c.Work != "baseline" && (c.Users != 100_000 || c.Zipf != 1):
		return usage("--users and --zipf are of --work baseline")
	case c.Repartition < 0 || c.Repartition > 1024:
		return usage("--repartition %d: use 0 to 1024", c.Repartition)
	case c.Repartition == 0 && (c.Order != "time" || c.Busy != 4 || c.Idle != 0):
		return usage("--order, --busy and --idle are of copies: use --repartition too")
	case c.Repartition > 0 && c.Rate > 0 && c.Work != "baseline":
		return usage("--repartition with --rate is of --work baseline, whose events say when they are due")
	case c.Busy < 1 || c.Busy > 4 || c.Idle < 0:
		return usage("--busy, --idle: use 1 to 4, and 0 or more")
	case c.Users < 1:
		return usage("--users %d: use 1 or more", c.Users)
	case c.Steady && (c.Rate == 0 || c.Duration < 3*c.Part):
		return usage("--steady compares with the third part: use --rate, and --duration of at least three times --part, which is %s", c.Part)
	case c.MaxLag > 0 && c.Rate == 0:
		return usage("--max-lag needs --rate: a log that is filled before is far behind")
	case c.Digest && c.Rate > 0:
		return usage("--digest needs --rate 0: events that are appended beside each other have no order of their own")
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
