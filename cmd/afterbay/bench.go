package main

import "time"

type benchCommand struct {
	Dir    string `help:"Folder to work in, on the disk to measure; it is removed after. The default is a temporary one." placeholder:"DIR"`
	Events int    `help:"Events, where --rate is 0." default:"1000000"`
	Seed   uint64 `help:"Seed of the generator." default:"1"`
	sessionFlags
	Rate           int           `help:"Events per second on a fixed schedule, to measure latency; 0 measures throughput on a log that is filled before." default:"0"`
	Duration       time.Duration `help:"How long to keep the rate." default:"10s"`
	CommitInterval time.Duration `help:"Commit interval; 0 is the pipeline's." default:"0"`
}

// Run measures, and prints a line for each figure: name, value, unit.
func (c *benchCommand) Run(a *app) error {
	if c.Events < 1 || c.Rate < 0 || c.Duration <= 0 || c.CommitInterval < 0 {
		return usage("--events and --duration are above 0, --rate and --commit-interval not below")
	}
	m := &measurement{app: a, options: c}
	return m.run()
}
