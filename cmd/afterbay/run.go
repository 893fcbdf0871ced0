package main

type runCommand struct {
	Files []string `arg:"" name:"file" help:"Pipeline files. Their pipelines share one log."`
	Data  string   `help:"Data directory; it is made where it is not there." default:"data" placeholder:"DIR"`
	listenFlags
	sessionFlags
	stateFlags
	UntilIdle bool `help:"Exit when all input is processed and committed."`
}

// Run runs the pipelines.
func (c *runCommand) Run(a *app) error {
	pipelines, err := a.load(c.Files, c.Sessions, c.keys)
	if err != nil {
		return err
	}
	p := &process{app: a, pipelines: pipelines, dir: c.Data, stateBytes: c.log(), untilIdle: c.UntilIdle}
	return p.run(c.listenFlags)
}
