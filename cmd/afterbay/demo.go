package main

import (
	"github.com/afterbay/afterbay/internal/lab/demo"
)

type demoCommand struct {
	Dir    string `help:"Folder of the demo; files of an earlier demo are replaced." default:"demo-data" placeholder:"DIR"`
	Events int    `help:"Card payments to generate." default:"200000"`
	Seed   uint64 `help:"Seed of the generator." default:"1"`
	parallelismFlags
}

// Run runs the demo.
func (c *demoCommand) Run(a *app) error {
	if c.Events < 1 {
		return usage("--events %d: use 1 or more", c.Events)
	}
	d := &demo.Demonstration{Dir: c.Dir, Events: c.Events, Seed: c.Seed, Parallelism: c.Parallelism, Loader: a.loader(), Out: a.stdout, Err: a.stderr}
	return d.Run(a.ctx)
}
