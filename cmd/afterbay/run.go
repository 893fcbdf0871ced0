package main

import (
	"errors"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

type runCommand struct {
	Files []string `arg:"" name:"file" help:"Pipeline files. Their pipelines share one log."`
	Data  string   `help:"Data directory; it is created if it does not exist. On Kafka, each process needs its own, for a copy of its state and its identity in the group." default:"data" placeholder:"DIR"`
	engineFlags
	listenFlags
	parallelismFlags
	stateFlags
	traceFlags
	Gateway         string `help:"Gateway file: serve clients in this process, the shortest path to an embedded log." placeholder:"FILE"`
	UntilIdle       bool   `help:"Exit when all input is processed and committed."`
	LeaveGroup      bool   `help:"On Kafka, give the partitions to the other processes at the end. Without it, they wait 6 s for a restart of this process."`
	StandbyReplicas int    `help:"On Kafka, how many other processes keep a warm copy of the state of each partition, to take it over within seconds after a crash." placeholder:"N"`
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
			return usage("--gateway and --until-idle exclude each other, because clients may always send more: leave one out")
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
