package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

type gatewayCommand struct {
	File string `arg:"" help:"Gateway file. Its engine is the log, unless --engine or AFTERBAY_ENGINE names one."`
	Data string `help:"Folder for what is the process's own: a copy of its state, the identity by which it takes up its partitions again, and how afterbay clients reaches it. It is made where it is not there." default:"gateway" placeholder:"DIR"`
	engineFlags
	Admin string `help:"Address of the HTTP server for metrics, health and afterbay clients; port 0 takes a free one. Clients connect to what the file has as listen." default:"127.0.0.1:7071" placeholder:"HOST:PORT"`
	accessFlags
	requestFlags
	stateFlags
	LeaveGroup      bool `help:"Hand the partitions to the other gateways at the end. Without it they wait 6 s for this one to come back."`
	StandbyReplicas int  `help:"How many other gateways keep a warm copy of the state beside each partition, to take it over within seconds when its owner dies." placeholder:"N"`
}

// Run serves clients until the first signal, and then sends them away.
func (c *gatewayCommand) Run(a *app) (err error) {
	a.service.Store(true)
	f, err := a.newFront(c.File)
	if err != nil {
		return err
	}
	engine, err := c.engineOf(f)
	if err != nil {
		return err
	}
	tokens, err := c.tokens(a)
	if err != nil {
		return err
	}
	options := admin.Options{Address: c.Admin, Token: c.Token, Tokens: tokens, Insecure: c.Insecure, CertFile: c.Cert, KeyFile: c.Key, Version: version(), Logger: a.log, Connections: c.Connections, Memory: c.memory()}
	if err := options.Validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	f.memory = options.Memory
	dir := engine.folder(c.Data)
	brokers, err := a.openEngine(engine, stream.Process{Dir: dir, Leave: c.LeaveGroup, StateBytes: c.log(), Standbys: c.StandbyReplicas})
	if err != nil {
		return err
	}
	a.orderly.Store(true)
	defer func() { err = errors.Join(err, brokers.Close()) }()
	log, err := generation.Open(a.ctx, brokers)
	if err != nil {
		return err
	}
	if err := f.listen(a.ctx, log); err != nil {
		return err
	}
	options.Gateway = f.shown()
	server, err := admin.Listen(log, options)
	if err != nil {
		return errors.Join(err, f.wait())
	}
	if err := server.Admin().Write(dir); err != nil {
		return &exitError{exitDamaged, errors.Join(err, f.wait())}
	}
	defer func() { err = errors.Join(err, server.Admin().Remove(dir)) }()
	fmt.Fprintf(a.stdout, "log %s, state copied to %s\n", engine.Config.Describe(), dir)
	f.announce(a)
	fmt.Fprintf(a.stdout, "listening on %s: /metrics, /healthz, /readyz, /v1/clients\n", server.URL())
	return a.serveFront(f, server)
}

// serveFront serves clients until the first signal. The server ends after them, so
// that they can be watched to the end.
func (a *app) serveFront(f *front, server *admin.Server) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(a.ctx))
	defer stopServing()
	group, failed := errgroup.WithContext(a.ctx)
	group.Go(func() error { return server.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		return f.run(failed)
	})
	server.Ready(true)
	return group.Wait()
}

// engineOf returns the log of a gateway, which is Kafka: an embedded log is of one
// process, the one that runs the pipeline.
func (c *gatewayCommand) engineOf(f *front) (*engine, error) {
	e := &engine{Engine: f.file.Engine, typed: c.File, place: f.file.Explain, env: os.Getenv}
	switch {
	case c.Engine != "":
		var err error
		if e, err = c.resolve(nil); err != nil {
			return nil, err
		}
	default:
		if err := e.wrong(e.Check()); err != nil {
			return nil, err
		}
	}
	if !e.shared() {
		return nil, usage("the log of a data directory is held by the process that runs the pipeline: serve its clients there, by afterbay run PIPELINE --gateway %s, or name Kafka by --engine or in the file", c.File)
	}
	return e, nil
}

// announce prints where clients connect.
func (f *front) announce(a *app) {
	fmt.Fprintf(a.stdout, "gateway %s: clients connect to %s/v1/stream; events go to %s\n", f.file.Name, f.address(), f.file.Pipeline.Input)
	for _, w := range f.warnings {
		fmt.Fprintf(a.stdout, "  warning: %s\n", w)
	}
}
