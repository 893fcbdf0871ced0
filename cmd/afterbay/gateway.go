package main

import (
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/process"
)

type gatewayCommand struct {
	File string `arg:"" help:"Gateway file. Its engine is the log, unless --engine or AFTERBAY_ENGINE names one."`
	Data string `help:"Folder of this process: a copy of its state, its identity in the group, and its address for afterbay clients. It is created if it does not exist." default:"gateway" placeholder:"DIR"`
	engineFlags
	Admin string `help:"Address of the HTTP server for metrics, health and afterbay clients; port 0 takes a free port. Clients connect to listen of the file." default:"127.0.0.1:7071" placeholder:"HOST:PORT"`
	accessFlags
	requestFlags
	stateFlags
	LeaveGroup      bool `help:"Give the partitions to the other gateways at the end. Without it, they wait 6 s for a restart of this gateway."`
	StandbyReplicas int  `help:"How many other gateways keep a warm copy of the state of each partition, to take it over within seconds after a crash." placeholder:"N"`
}

// Run serves clients until the first signal, and then disconnects them.
func (c *gatewayCommand) Run(a *app) (err error) {
	a.service.Store(true)
	f, err := process.NewGateway(c.File, fileKinds(), a.log, a.fault)
	if err != nil {
		return err
	}
	engine, err := c.engineOf(f)
	if err != nil {
		return err
	}
	listen := listenFlags{c.Admin, c.accessFlags, c.requestFlags}
	http, err := listen.http(a)
	if err != nil {
		return err
	}
	p, err := process.Open(a.ctx, engine, process.Options{
		Data: c.Data, Leave: c.LeaveGroup, Standbys: c.StandbyReplicas, StateBytes: c.log(), Listen: true, HTTP: http, Gateway: f, Logger: a.log,
		Started: func(running process.Running) {
			fmt.Fprintf(a.stdout, "log %s, state copied to %s\n", engine.Config.Describe(), running.Dir)
			announceGateway(a, f)
			fmt.Fprintf(a.stdout, "listening on %s: /metrics, /healthz, /readyz, /v1/clients\n", running.URL)
		},
	})
	if err != nil {
		return err
	}
	a.orderly.Store(true)
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.ServeGateway(a.ctx)
}

// engineOf returns the log of a gateway. It must be Kafka: an embedded log belongs to one process,
// the one that runs the pipeline.
func (c *gatewayCommand) engineOf(f *process.Gateway) (*process.Engine, error) {
	e, err := process.EngineOfGateway(c.File, f.File())
	if c.Engine != "" {
		e, err = c.resolve(nil)
	}
	if err != nil {
		return nil, err
	}
	if !e.Shared() {
		return nil, usage("the process that runs the pipeline holds the log of a data directory: serve its clients there, with afterbay run PIPELINE --gateway %s, or use Kafka with --engine or in the file", c.File)
	}
	return e, nil
}

// announceGateway prints the address that clients connect to.
func announceGateway(a *app, f *process.Gateway) {
	fmt.Fprintf(a.stdout, "gateway %s: clients connect to %s/v1/stream; events go to %s\n", f.File().Name, f.Address(), f.File().Pipeline.Input)
	for _, w := range f.Warnings() {
		fmt.Fprintf(a.stdout, "  warning: %s\n", w)
	}
}
