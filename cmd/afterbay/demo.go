package main

type demoCommand struct {
	Dir    string `help:"Folder of the demo; what an earlier demo left there is replaced." default:"demo-data" placeholder:"DIR"`
	Events int    `help:"Card payments to generate." default:"200000"`
	Seed   uint64 `help:"Seed of the generator." default:"1"`
	parallelismFlags
}

// Run runs the demo.
func (c *demoCommand) Run(a *app) error {
	if c.Events < 1 {
		return usage("--events %d: use 1 or more", c.Events)
	}
	d := &demonstration{app: a, dir: c.Dir, events: c.Events, seed: c.Seed, sessions: c.Parallelism}
	return d.run()
}
