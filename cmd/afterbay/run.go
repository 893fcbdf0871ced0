package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

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
func (c *runCommand) Run(a *app) (err error) {
	a.service.Store(true)
	traces, err := c.exporter(a)
	if err != nil {
		return err
	}
	pipelines, err := a.load(c.Files, c.Parallelism, c.keys, c.trace(traces), func(o *pipeline.Options) { o.Reach = c.UntilIdle })
	if err != nil {
		return err
	}
	engine, err := c.resolve(pipelines)
	if err != nil {
		return err
	}
	var clients *process.Gateway
	if c.Gateway != "" {
		if c.UntilIdle {
			return usage("--gateway and --until-idle: clients may always send more: leave one of them out")
		}
		if clients, err = process.NewGateway(c.Gateway, fileKinds(), a.log, a.fault); err != nil {
			return err
		}
		if err = clients.Fits(pipelines); err != nil {
			return err
		}
	}
	http, err := c.http(a)
	if err != nil {
		return err
	}
	p, err := process.Open(a.ctx, engine, process.Options{
		Data: c.Data, Leave: c.LeaveGroup, Standbys: c.StandbyReplicas, StateBytes: c.log(), UntilIdle: c.UntilIdle,
		Listen: c.Listen != "none", HTTP: http, Gateway: clients, Traces: traces, Logger: a.log, Loader: a.loader(),
		Started: func(running process.Running) { c.announce(a, engine, running) },
		Ended:   func(runner *pipeline.Runner) { sumUp(a, runner) },
	})
	if err != nil {
		return err
	}
	a.orderly.Store(true)
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Run(a.ctx, pipelines)
}

// http returns the options of the HTTP server.
func (f *listenFlags) http(a *app) (admin.Options, error) {
	tokens, err := f.tokens(a)
	return admin.Options{
		Address: f.Listen, Token: f.Token, Tokens: tokens, Insecure: f.Insecure, CertFile: f.Cert, KeyFile: f.Key,
		Version: version(), Connections: f.Connections, Memory: f.memory(),
	}, err
}

// announce prints what runs, where, and what to type next.
func (c *runCommand) announce(a *app, e *process.Engine, running process.Running) {
	if e.Shared() {
		fmt.Fprintf(a.stdout, "log %s, state copied to %s\n", e.Config.Describe(), running.Dir)
	} else {
		fmt.Fprintf(a.stdout, "%s %s\n", e.Config.Describe(), running.Dir)
	}
	arrivals := pipeline.Arrivals(process.Runners(running.Pipelines))
	for i, one := range running.Pipelines {
		fmt.Fprintf(a.stdout, "pipeline %s reads %s\n", one.Runner.Name(), one.Describe())
		for _, w := range slices.Concat(one.Runner.Warnings, arrivals[i]) {
			fmt.Fprintf(a.stdout, "  warning: %s\n", w)
		}
	}
	if running.URL != "" {
		fmt.Fprintf(a.stdout, "listening on %s: POST /v1/topics/{topic}, /metrics, /healthz, /readyz, /v1/status\n", running.URL)
	}
	if running.Gateway != nil && running.Gateway.Address() != "" {
		announceGateway(a, running.Gateway)
	}
	if running.URL == "" || c.UntilIdle {
		return
	}
	data := engineFlag(e, running.Dir)
	runner := running.Pipelines[0].Runner
	first := fmt.Sprintf("produce %s events.ndjson%s", runner.Input(), data)
	if running.Gateway != nil {
		first = fmt.Sprintf("token issue --keys %s --key ID --tenant NAME --client NAME", running.Gateway.File().Keys)
	}
	fmt.Fprintf(a.stdout, "next, in another terminal:\n  afterbay %s\n  afterbay tail %s --follow%s\n", first, runner.Outputs()[0], data)
}

// sumUp prints what a pipeline and its sinks did.
func sumUp(a *app, runner *pipeline.Runner) {
	s := runner.Snapshot()
	c := &s.Counts
	fmt.Fprintf(a.stdout, "pipeline %s: %d events, %d outputs, %d dead letters, %d late\n", runner.Name(), c.Events, c.Outputs, c.DeadLetters, c.Late)
	for _, m := range s.Sinks {
		fmt.Fprintf(a.stdout, "sink %s.%s: %d delivered, %d repeated, %d dead letters, %d failed calls\n",
			s.Name, m.Sink, m.Delivered, m.Repeated, m.Dead, m.Failures)
	}
}
