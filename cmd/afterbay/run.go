package main

import "github.com/afterbay/afterbay"

type runCommand struct {
	Files []string `arg:"" name:"file" help:"Pipeline files. Their pipelines share one log."`
	Data  string   `help:"Data directory; it is made where it is not there. On Kafka each process has its own, for a copy of its state and the identity by which it takes up its partitions again." default:"data" placeholder:"DIR"`
	engineFlags
	listenFlags
	parallelismFlags
	stateFlags
	traceFlags
	Gateway         string `help:"Gateway file: serve clients in this process, which is the shortest way to an embedded log." placeholder:"FILE"`
	UntilIdle       bool   `help:"Exit when all input is processed and committed."`
	LeaveGroup      bool   `help:"On Kafka, hand the partitions to the other processes at the end. Without it they wait 6 s for this one to come back."`
	StandbyReplicas int    `help:"On Kafka, how many other processes keep a warm copy of the state beside each partition, to take it over within seconds when its owner dies." placeholder:"N"`
}

// Run runs the pipelines.
func (c *runCommand) Run(a *app) error {
	a.service.Store(true)
	traces, err := c.exporter(a)
	if err != nil {
		return err
	}
	pipelines, err := a.load(c.Files, c.Parallelism, c.keys, c.trace(traces), func(o *afterbay.Options) { o.Reach = c.UntilIdle })
	if err != nil {
		return err
	}
	engine, err := c.resolve(pipelines)
	if err != nil {
		return err
	}
	var clients *front
	if c.Gateway != "" {
		if c.UntilIdle {
			return usage("--gateway and --until-idle: clients may always send more: leave one of them out")
		}
		if clients, err = a.newFront(c.Gateway); err != nil {
			return err
		}
		if err = clients.fits(pipelines); err != nil {
			return err
		}
	}
	p := &process{app: a, pipelines: pipelines, dir: c.Data, engine: engine, leave: c.LeaveGroup, standbys: c.StandbyReplicas, stateBytes: c.log(), untilIdle: c.UntilIdle, traces: traces, front: clients}
	return p.run(c.listenFlags)
}
