package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/observe/otlp"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// process runs pipelines over the log of a data directory or of Kafka, and
// serves HTTP beside them.
type process struct {
	*app
	pipelines  []pipeline
	dir        string
	engine     *engine
	leave      bool
	standbys   int
	untilIdle  bool
	stateBytes int64          // of the log; 0 is its default
	traces     *otlp.Exporter // nil is none
	front      *front         // clients are served by it; nil is none
	names      *generation.Names
	switches   chan *switching // pipelines to be handed over
	deriving   sync.Mutex      // held by who derives one again
}

func (p *process) run(listen listenFlags) (err error) {
	tokens, err := listen.tokens(p.app)
	if err != nil {
		return err
	}
	options := admin.Options{
		Address: listen.Listen, Token: listen.Token, Tokens: tokens, Insecure: listen.Insecure, CertFile: listen.Cert, KeyFile: listen.Key, Version: version(), Connections: listen.Connections, Memory: listen.memory(),
		Full: func(err error) bool { return errors.Is(err, embedded.ErrFull) }, Logger: p.log,
	}
	if listen.Listen != "none" {
		if err := options.Validate(); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	log, err := p.open(&options)
	if err != nil {
		return err
	}
	p.orderly.Store(true)
	defer func() { err = errors.Join(err, log.Close()) }()
	if p.names, err = generation.Open(p.ctx, log); err != nil {
		return err
	}
	if p.front != nil { // before the log is closed
		p.front.memory = options.Memory
		defer func() { err = errors.Join(err, p.front.wait()) }()
	}
	p.switches = make(chan *switching)
	for switched := true; switched; {
		if switched, err = p.round(options, &listen); err != nil {
			return err
		}
	}
	return nil
}

// timeWarner is a log that deletes records by their times, if its topics say so.
type timeWarner interface {
	WarnOfTimes(ctx context.Context, topics ...string)
}

// round runs the pipelines as they are, until the end or until one of them was
// switched to another generation.
func (p *process) round(options admin.Options, listen *listenFlags) (switched bool, err error) {
	log := p.names
	options.Address = listen.Listen
	for _, pipeline := range p.pipelines {
		options.Runners = append(options.Runners, pipeline.runner)
		if err := log.Check(pipeline.runner.Name(), pipeline.runner.Digest()); err != nil {
			return false, &exitError{exitInvalid, err}
		}
	}
	if err := afterbay.CreateTopics(p.ctx, log, runnersOf(p.pipelines)); err != nil {
		return false, err
	}
	if warner, ok := log.Log.(timeWarner); ok {
		warner.WarnOfTimes(p.ctx, planOf(p.pipelines).Writes...)
	}
	if err := p.openFront(); err != nil {
		return false, err
	}
	options.Gateway = p.front.shown()
	serving, stopServing := context.WithCancel(context.WithoutCancel(p.ctx))
	defer stopServing()
	var server *admin.Server
	if listen.Listen != "none" {
		if err := p.mountModels(serving, &options); err != nil {
			return false, err
		}
		options.Reprocess = func(ctx context.Context, r reprocess.Request) iter.Seq2[reprocess.Progress, error] {
			return p.rederiveHere(ctx, r)
		}
		if server, err = admin.Listen(log, options); err != nil {
			return false, err
		}
		listen.Listen = server.Address() // for the next round
		if err := server.Admin().Write(p.dir); err != nil {
			return false, &exitError{exitDamaged, err}
		}
		defer func() { err = errors.Join(err, server.Admin().Remove(p.dir)) }()
	}
	p.announce(server)
	return p.work(log, server, serving, stopServing)
}

// openFront takes the address of clients, once the topics of the pipelines are
// there. It stays over rounds: a switch of generations disconnects no client. If a topic of
// the gateway got more partitions, the gateway ends alone.
func (p *process) openFront() error {
	if p.front == nil || p.front.done != nil {
		return nil
	}
	err := p.front.listen(p.ctx, p.names)
	switch {
	case afterbay.Outgrown(err):
		p.front.fail(err)
	case err != nil:
		return err
	default:
		p.front.start(p.ctx)
	}
	return nil
}

// mountModels answers requests with the models of the pipelines, until ctx is done.
// Pipelines may share one; of two with one name and version the first is served.
func (p *process) mountModels(ctx context.Context, options *admin.Options) error {
	var models []serving.Named
	digests := map[string]string{}
	for _, pipeline := range p.pipelines {
		for _, m := range pipeline.runner.NamedModels() {
			pinned, digest := fmt.Sprintf("%s@%d", m.Name, m.Version), m.Model.Info().Digest
			if first, ok := digests[pinned]; ok {
				if first != digest {
					p.log.Warn("a model is not served: another pipeline has another one of its name and version", "model", pinned, "pipeline", pipeline.runner.Name())
				}
				continue
			}
			digests[pinned] = digest
			if m.Model.Info().State > 0 { // of keys, which requests have none of
				continue
			}
			models = append(models, serving.Named{Name: m.Name, Version: strconv.Itoa(m.Version), Model: m.Model, Scores: scoreNames(m.Model.Info(), m.Outputs, func(o afterbay.Field) string { return o.Name })})
		}
	}
	if len(models) == 0 {
		return nil
	}
	handler, err := serving.New(ctx, models, serving.Options{Version: options.Version})
	if err != nil {
		return err
	}
	options.Endpoints = handler.Endpoints()
	options.Collectors = append(options.Collectors, handler.Collectors()...)
	return nil
}

// open opens the log that the process works on. From then on dir is where it
// keeps what is its own.
func (p *process) open(options *admin.Options) (admin.Log, error) {
	p.dir = p.engine.folder(p.dir)
	deliveries := map[string]stream.Delivery{}
	for _, pipeline := range p.pipelines {
		deliveries[pipeline.runner.Name()] = deliveryOf(pipeline.source.Pipelines[pipeline.index].Delivery)
	}
	log, err := p.openEngine(p.engine, stream.Process{
		Dir: p.dir, Leave: p.leave, StateBytes: p.stateBytes, Standbys: p.standbys, Deliveries: deliveries,
	})
	if err != nil {
		return nil, err
	}
	if counted, ok := log.(interface{ Stats() embedded.Stats }); ok {
		options.Collectors, options.Stats = []prometheus.Collector{admin.LogCollector(counted.Stats)}, counted.Stats
	}
	return log, nil
}

// work runs the pipelines until the first signal, or until there is nothing to
// do. The server ends after them, so that they can be watched to the end.
func (p *process) work(log admin.Log, server *admin.Server, serving context.Context, stopServing func()) (switched bool, err error) {
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	var outer errgroup.Group
	if server != nil {
		server.Ready(true)
		outer.Go(func() error {
			err := server.Run(serving)
			if err != nil {
				stop()
			}
			return err
		})
	}
	if p.traces != nil {
		outer.Go(func() error { return p.traces.Run(serving) })
	}
	group, ctx := errgroup.WithContext(ctx)
	var ended error // of pipelines, while others went on
	group.Go(func() error {
		err := afterbay.RunChain(ctx, log, runnersOf(p.pipelines))
		if ctx.Err() != nil && afterbay.Outgrown(err) {
			ended, err = err, nil
		}
		return err
	})
	if p.untilIdle {
		group.Go(func() error {
			defer stop()
			return waitIdle(ctx, log, p.pipelines)
		})
	}
	if p.front != nil {
		group.Go(func() error {
			p.watchFront(ctx, stop)
			return nil
		})
	}
	var next *switching
	group.Go(func() error {
		select {
		case next = <-p.switches:
			stop()
		case <-ctx.Done():
		}
		return nil
	})
	err = group.Wait()
	if next != nil {
		p.handOver(next, err)
	} else {
		err = errors.Join(err, ended)
	}
	p.keepTimings(p.dir, runnersOf(p.pipelines)...)
	stopServing()
	err = errors.Join(err, outer.Wait())
	for _, pipeline := range p.pipelines {
		c := pipeline.runner.Counts()
		fmt.Fprintf(p.stdout, "pipeline %s: %d events, %d outputs, %d dead letters, %d late\n", pipeline.runner.Name(), c.Events, c.Outputs, c.DeadLetters, c.Late)
		p.sumUpSinks(pipeline.runner)
	}
	if next != nil {
		p.pipelines = next.pipelines
	}
	return next != nil && p.ctx.Err() == nil, err
}

// watchFront calls stop if the gateway ends before ctx is done, unless one of the
// topics that it reads got more partitions.
func (p *process) watchFront(ctx context.Context, stop func()) {
	select {
	case <-p.front.done: // wait returns its error
		if p.front.ended() == nil {
			stop()
			return
		}
		p.log.Error("the gateway ended, and the pipelines go on", "gateway", p.front.file.Name, "reason", p.front.err)
	case <-ctx.Done():
	}
}

// keepTimings leaves the times of the newest events for afterbay explain. They
// are no results, so that failing costs a warning.
func (a *app) keepTimings(dir string, runners ...*afterbay.Runner) {
	if err := explain.WriteTimings(dir, runners); err != nil {
		a.log.Warn("the times of the newest events are not kept", "reason", err)
	}
}

// waitIdle returns when all pipelines, upstream first, have their partitions, so
// that what is wrong with their state was found, and have committed all of their
// input, and all sinks are done with what that became. It waits for none that ended
// alone.
func waitIdle(ctx context.Context, log admin.Log, pipelines []pipeline) error {
	for _, p := range pipelines {
		if err := waitAssigned(ctx, log, p.runner); err != nil {
			return err
		}
		if err := p.runner.WaitIdle(ctx, log); err != nil && !afterbay.Outgrown(err) {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	for _, p := range pipelines {
		if err := p.runner.WaitDelivered(ctx, log); err != nil && ctx.Err() == nil && !afterbay.Outgrown(err) {
			return err
		}
	}
	return nil
}

func waitAssigned(ctx context.Context, log admin.Log, runner *afterbay.Runner) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	partitions := uint64(0)
	for _, read := range runner.Reads() {
		i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == read.Topic })
		partitions += uint64(topics[i].Partitions)
	}
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for runner.Counts().Assigned < partitions && runner.Ended() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// announce prints what runs, where, and what to type next.
func (p *process) announce(server *admin.Server) {
	if p.engine.shared() {
		fmt.Fprintf(p.stdout, "log %s, state copied to %s\n", p.engine.Config.Describe(), p.dir)
	} else {
		fmt.Fprintf(p.stdout, "%s %s\n", p.engine.Config.Describe(), p.dir)
	}
	var runners []*afterbay.Runner
	for _, pipeline := range p.pipelines {
		runners = append(runners, pipeline.runner)
	}
	arrivals := afterbay.Arrivals(runners)
	for i, pipeline := range p.pipelines {
		fmt.Fprintf(p.stdout, "pipeline %s reads %s\n", pipeline.runner.Name(), pipeline.describe())
		for _, w := range slices.Concat(pipeline.runner.Warnings(), arrivals[i]) {
			fmt.Fprintf(p.stdout, "  warning: %s\n", w)
		}
	}
	if server != nil {
		fmt.Fprintf(p.stdout, "listening on %s: POST /v1/topics/{topic}, /metrics, /healthz, /readyz, /v1/status\n", server.URL())
	}
	if p.front != nil && p.front.listener != nil {
		p.front.announce(p.app)
	}
	if server == nil || p.untilIdle {
		return
	}
	data := p.engine.flag(p.dir)
	runner := p.pipelines[0].runner
	first := fmt.Sprintf("produce %s events.ndjson%s", runner.Input(), data)
	if p.front != nil {
		first = fmt.Sprintf("token issue --keys %s --key ID --tenant NAME --client NAME", p.front.file.Keys)
	}
	fmt.Fprintf(p.stdout, "next, in another terminal:\n  afterbay %s\n  afterbay tail %s --follow%s\n", first, runner.Outputs()[0], data)
}
