package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/observe/otlp"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// Options configures how a process runs pipelines. Options do not change results.
type Options struct {
	Data       string // the data directory; on a shared log, the parent folder of the process's own files
	Leave      bool   // as in stream.Process
	Standbys   int    // as in stream.Process
	StateBytes int64  // limit of the log's state in memory; 0 is the default of the log
	UntilIdle  bool   // Run ends when all input is processed

	Listen bool          // serve HTTP
	HTTP   admin.Options // options of the HTTP server; the process sets the fields that depend on it

	Gateway *Gateway       // serve clients; nil serves no clients
	Traces  *otlp.Exporter // nil exports no traces
	Logger  *slog.Logger   // as in stream.Process
	Loader  *Loader        // loads pipelines that replace others

	// Started is called when the pipelines begin, and again after each switch to another
	// generation. nil is not called.
	Started func(Running)
	// Ended is called with each pipeline that ended, after the server has ended. nil is not called.
	Ended func(*pipeline.Runner)
}

// Running describes a running process.
type Running struct {
	Pipelines []Pipeline
	Dir       string   // folder of the process's own files
	URL       string   // URL of the HTTP server; "" without one
	Gateway   *Gateway // nil without a gateway
}

// Process runs pipelines over the log of a data directory or of Kafka, and serves HTTP for them.
type Process struct {
	Options
	pipelines  []Pipeline
	dir        string
	log        stream.Engine
	deliveries map[string]stream.Delivery // by pipeline; the log reads it when a pipeline becomes a member
	names      *generation.Names
	switches   chan *switching              // pipelines to hand over
	server     atomic.Pointer[admin.Server] // server of the newest round
	deriving   sync.Mutex                   // held by the caller that reprocesses
}

// Open opens the log of an engine for a process. The caller must close the process.
func Open(ctx context.Context, e *Engine, o Options) (*Process, error) {
	if o.Listen {
		if err := o.HTTP.Validate(); err != nil {
			return nil, failure.As(failure.OfUsage, err)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.HTTP.Full = func(err error) bool { return errors.Is(err, embedded.ErrFull) }
	o.HTTP.Logger = o.Logger
	p := &Process{Options: o, dir: e.Folder(o.Data), deliveries: map[string]stream.Delivery{}, switches: make(chan *switching)}
	var err error
	p.log, err = e.Open(ctx, o.Logger, stream.Process{
		Dir: p.dir, Leave: o.Leave, StateBytes: o.StateBytes, Standbys: o.Standbys, Deliveries: p.deliveries,
	})
	if err != nil {
		return nil, err
	}
	if counted, ok := p.log.(interface{ Stats() embedded.Stats }); ok {
		p.HTTP.Stats = counted.Stats
	}
	if p.names, err = generation.Open(ctx, p.log); err != nil {
		return nil, errors.Join(err, p.log.Close())
	}
	return p, nil
}

// Close closes the log. Run must have returned.
func (p *Process) Close() error { return p.log.Close() }

// Run runs pipelines until ctx is done. The pipelines must be upstream first. Call Run only once.
func (p *Process) Run(ctx context.Context, pipelines []Pipeline) (err error) {
	p.pipelines = pipelines
	for _, one := range pipelines {
		p.deliveries[one.Runner.Name()] = DeliveryOf(one.Source.Pipelines[one.Index].Delivery)
	}
	if p.Gateway != nil { // before the log is closed
		p.Gateway.memory = p.HTTP.Memory
		defer func() { err = errors.Join(err, p.Gateway.wait()) }()
	}
	for switched := true; switched; {
		if switched, err = p.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// timeWarner is a log that deletes records by their times if its topics say so.
type timeWarner interface {
	WarnOfTimes(ctx context.Context, topics ...string)
}

// round runs the current pipelines until they end, or until one of them was switched to another
// generation.
func (p *Process) round(ctx context.Context) (switched bool, err error) {
	log, options := p.names, p.HTTP
	for _, one := range p.pipelines {
		options.Runners = append(options.Runners, one.Runner)
		if err := log.Check(one.Runner.Name(), one.Runner.Plan.Fingerprint.Outputs); err != nil {
			return false, failure.Files(err)
		}
	}
	if err := pipeline.CreateTopics(ctx, log, Runners(p.pipelines)); err != nil {
		return false, err
	}
	if warner, ok := log.Log.(timeWarner); ok {
		warner.WarnOfTimes(ctx, PlanOf(p.pipelines).Writes...)
	}
	if err := p.openFront(ctx); err != nil {
		return false, err
	}
	candidates := p.candidatesOf(p.pipelines)
	options.Candidates = shownCandidates(candidates)
	options.Gateway = p.Gateway.shown()
	p.server.Store(admin.Unheard(log, options))
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var server *admin.Server
	if p.Listen {
		if err := p.mountModels(serving, &options); err != nil {
			return false, err
		}
		options.Reprocess = p.Reprocess
		if server, err = admin.Listen(log, options); err != nil {
			return false, err
		}
		p.server.Store(server)
		p.HTTP.Address = server.Address() // the next round reuses the address
		if err := server.Admin().Write(p.dir); err != nil {
			return false, failure.Directory(err)
		}
		defer func() { err = errors.Join(err, server.Admin().Remove(p.dir)) }()
	}
	p.started(server)
	return p.work(ctx, candidates, server, serving, stopServing)
}

// started calls Options.Started.
func (p *Process) started(server *admin.Server) {
	if p.Started == nil {
		return
	}
	r := Running{Pipelines: p.pipelines, Dir: p.dir, Gateway: p.Gateway}
	if server != nil {
		r.URL = server.URL()
	}
	p.Started(r)
}

// openFront listens for clients once the topics of the pipelines exist. The listener stays over
// rounds, so a switch of generations disconnects no client. If a topic of the gateway got more
// partitions, the gateway ends alone.
func (p *Process) openFront(ctx context.Context) error {
	if p.Gateway == nil || p.Gateway.done != nil {
		return nil
	}
	err := p.Gateway.listen(ctx, p.names)
	switch {
	case pipeline.Outgrown(err):
		p.Gateway.fail(err)
	case err != nil:
		return err
	default:
		p.Gateway.start(ctx)
	}
	return nil
}

// mountModels serves the models of the pipelines until ctx is done. Pipelines may share a model. If
// two have the same name and version, the first one is served.
func (p *Process) mountModels(ctx context.Context, options *admin.Options) error {
	var models []serving.Named
	digests := map[string]string{}
	for _, one := range p.pipelines {
		for _, m := range one.Runner.Models {
			pinned, digest := fmt.Sprintf("%s@%d", m.Name, m.Version), m.Model.Info().Digest
			if first, ok := digests[pinned]; ok {
				if first != digest {
					p.Logger.Warn("a model is not served: another pipeline has a different model with its name and version", "model", pinned, "pipeline", one.Runner.Name())
				}
				continue
			}
			digests[pinned] = digest
			if m.Model.Info().State > 0 { // the model needs keyed state, and requests have no key
				continue
			}
			models = append(models, serving.Named{Name: m.Name, Version: strconv.Itoa(m.Version), Model: m.Model, Scores: ScoreNames(m.Model.Info(), m.Outputs, func(o lang.Field) string { return o.Name })})
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
	options.Collectors = append(slices.Clip(options.Collectors), handler.Collectors()...)
	return nil
}

// PlanOf returns the topics and groups that pipelines read and write.
func PlanOf(pipelines []Pipeline) (plan kafka.Plan) {
	for _, p := range pipelines {
		for _, r := range slices.Concat(p.Runner.Reads(), p.Runner.StageReads(), p.Runner.SinkReads()) {
			plan.Reads = append(plan.Reads, kafka.Reading{Group: r.Group, Topic: r.Topic})
		}
		plan.Writes = append(plan.Writes, p.Runner.Outputs()...)
		if notes := p.Runner.Plan.Notes(); notes != "" {
			plan.Writes = append(plan.Writes, notes)
		}
		for _, s := range p.Runner.Sinks {
			plan.Writes = append(plan.Writes, sinks.DeadTopic(p.Runner.Name()+"."+s.Name))
		}
		if reads := p.Runner.Reads(); len(reads) > 1 { // all but the last read are of repartitioners, which write to the topic of the last one
			plan.Writes = append(plan.Writes, reads[len(reads)-1].Topic)
		}
		for _, read := range p.Runner.StageReads() {
			plan.Writes = append(plan.Writes, read.Topic)
		}
	}
	return plan
}

// ScoreNames returns the names of a model's scores. It returns nil if outputs are not one name per
// score: with vectors, or texts among the outputs.
func ScoreNames[T any](info model.Info, outputs []T, name func(T) string) (names []string) {
	if len(outputs) != info.Scores() || info.Texts() > 0 {
		return nil
	}
	for _, o := range outputs {
		names = append(names, name(o))
	}
	return names
}

// work runs the pipelines until the first signal, or until no work is left. The server ends after
// them, so that users can watch them to the end.
func (p *Process) work(outer context.Context, candidates []*candidate, server *admin.Server, serving context.Context, stopServing func()) (switched bool, err error) {
	ctx, stop := context.WithCancel(outer)
	defer stop()
	var beside errgroup.Group
	if server != nil {
		server.Ready(true)
		beside.Go(func() error {
			err := server.Run(serving)
			if err != nil {
				stop()
			}
			return err
		})
	}
	if p.Traces != nil {
		beside.Go(func() error { return p.Traces.Run(serving) })
	}
	group, ctx := errgroup.WithContext(ctx)
	runCandidates(ctx, group, candidates)
	var ended error // error of pipelines that ended while others continued
	group.Go(func() error {
		err := pipeline.RunChain(ctx, p.names, Runners(p.pipelines))
		if ctx.Err() != nil && pipeline.Outgrown(err) {
			ended, err = err, nil
		}
		return err
	})
	if p.UntilIdle {
		group.Go(func() error {
			defer stop()
			defer waitCandidates(ctx, candidates)
			return waitIdle(ctx, p.names, p.pipelines)
		})
	}
	if p.Gateway != nil {
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
		p.handOver(outer, next, err)
	} else {
		err = errors.Join(err, ended)
	}
	KeepTimings(p.Logger, p.dir, Runners(p.pipelines)...)
	stopServing()
	err = errors.Join(err, beside.Wait())
	for _, one := range p.pipelines {
		if p.Ended != nil {
			p.Ended(one.Runner)
		}
	}
	if next != nil {
		p.pipelines = next.pipelines
	}
	return next != nil && outer.Err() == nil, err
}

// watchFront calls stop if the gateway ends before ctx is done, unless a topic that it reads got
// more partitions.
func (p *Process) watchFront(ctx context.Context, stop func()) {
	select {
	case <-p.Gateway.done: // wait returns its error
		if p.Gateway.ended() == nil {
			stop()
			return
		}
		p.Logger.Error("the gateway ended, and the pipelines continue", "gateway", p.Gateway.file.Name, "reason", p.Gateway.err)
	case <-ctx.Done():
	}
}

// KeepTimings stores the timing of the newest events for afterbay explain. If that fails, it logs
// only a warning, because the timing is not a result.
func KeepTimings(logger *slog.Logger, dir string, runners ...*pipeline.Runner) {
	if err := explain.WriteTimings(dir, runners); err != nil {
		logger.Warn("the timings of the newest events were not saved", "reason", err)
	}
}

// waitIdle blocks until all pipelines, upstream first, are idle. First each must have its
// partitions, so that errors of its state are found. Then each must have committed all of its
// input, and its sinks must have delivered the outputs. waitIdle skips pipelines and sinks that
// ended alone.
func waitIdle(ctx context.Context, log inspect.Log, pipelines []Pipeline) error {
	for _, p := range pipelines {
		if err := WaitAssigned(ctx, log, p.Runner); err != nil {
			return err
		}
		if err := p.Runner.WaitIdle(ctx, log); err != nil && !pipeline.Outgrown(err) {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	for _, p := range pipelines {
		if err := p.Runner.WaitDelivered(ctx, log); err != nil && ctx.Err() == nil && !pipeline.Outgrown(err) {
			return err
		}
	}
	return nil
}

// WaitAssigned blocks until a pipeline has all partitions of its topics, or has ended.
func WaitAssigned(ctx context.Context, log inspect.Log, runner *pipeline.Runner) error {
	topics, err := log.Topics(ctx)
	if err != nil {
		return err
	}
	partitions := uint64(0)
	for _, read := range slices.Concat(runner.Reads(), runner.StageReads()) {
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

// ServeGateway serves only the clients of the gateway until ctx is done, and then disconnects them.
// Other processes run the pipelines. The HTTP server ends after the gateway, so that users can
// watch it to the end.
func (p *Process) ServeGateway(ctx context.Context) (err error) {
	f, options := p.Gateway, p.HTTP
	f.memory = options.Memory
	if err := f.listen(ctx, p.names); err != nil {
		return err
	}
	options.Gateway = f.shown()
	server, err := admin.Listen(p.names, options)
	if err != nil {
		return errors.Join(err, f.wait())
	}
	if err := server.Admin().Write(p.dir); err != nil {
		return failure.Directory(errors.Join(err, f.wait()))
	}
	defer func() { err = errors.Join(err, server.Admin().Remove(p.dir)) }()
	p.started(server)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		return f.run(failed)
	})
	server.Ready(true)
	return group.Wait()
}

// Status returns the state of the pipelines of Run, as the HTTP server shows it.
func (p *Process) Status(ctx context.Context) (admin.Status, error) { return p.answering().Status(ctx) }

// Directory returns the contents of the log, for tools.
func (p *Process) Directory() inspect.Directory { return &inspect.Local{Log: p.names} }

// answering returns a server for queries.
func (p *Process) answering() *admin.Server {
	if s := p.server.Load(); s != nil {
		return s
	}
	return admin.Unheard(p.names, p.HTTP)
}

// WaitIdle blocks until the pipelines of Run have processed the present input. It must be called
// after Started.
func (p *Process) WaitIdle(ctx context.Context) error { return waitIdle(ctx, p.names, p.pipelines) }

// AddGateway makes Run serve the clients of a gateway file. It returns an error if the file does
// not fit the pipelines.
func (p *Process) AddGateway(path string, kinds lang.Kinds, pipelines []Pipeline) error {
	g, err := NewGateway(path, kinds, p.Logger, nil)
	if err == nil {
		err = g.Fits(pipelines)
	}
	if err == nil {
		p.Gateway = g
	}
	return err
}
