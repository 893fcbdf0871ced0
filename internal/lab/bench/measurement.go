package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lab/demo"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// measurement is the measurement of one workload.
type measurement struct {
	*Program
	ctx        context.Context
	options    *Options
	work       work
	data       string // data directory
	deliveries map[string]stream.Delivery
	runner     *pipeline.Runner
	records    inspect.Log
	meter      *term.Meter
	profile    *profile
}

// Measure runs a workload and prints one line per result: name, value, unit.
func Measure(ctx context.Context, o *Options, p *Program) (err error) {
	m := &measurement{Program: p, ctx: ctx, options: o}
	if m.profile, err = newProfile(o.CPUProfile); err != nil {
		return err
	}
	return errors.Join(m.run(), m.profile.close())
}

func (m *measurement) run() (err error) {
	dir := m.options.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "afterbay-bench-"); err != nil {
			return fmt.Errorf("%w: name a folder with --dir", err)
		}
	}
	m.work = m.options.work()
	example, err := demo.NewExample(dir, m.work.files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kernel, err := m.load(example)
	if err != nil {
		return err
	}
	m.data = example.Data()
	closeLog, err := m.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if err := m.runner.CreateTopics(m.ctx, m.records); err != nil {
		return err
	}
	fmt.Fprintf(m.Out, "%s\nkernel %s\n", m.options.describe(m.Engine.Shared()), kernel)
	m.meter = term.NewMeter(m.Err)
	defer m.meter.Clear()
	if m.options.Rate > 0 {
		return m.latency()
	}
	return m.throughput()
}

// load creates the runner, and returns the name of the kernel that its model selected.
func (m *measurement) load(e *demo.Example) (string, error) {
	file, err := config.Load(e.Pipeline(), m.Loader.Kinds)
	if err != nil {
		return "", err
	}
	p := file.Pipelines[0]
	if m.options.CommitInterval > 0 {
		p.Commit.Interval = m.options.CommitInterval
	}
	p.Input.Repartition = m.options.Repartition
	if m.options.Repartition > 0 {
		p.Input.Time.Order, p.Input.Time.Idle = m.options.Order, m.options.Idle
	}
	if m.options.Exact {
		exactWindows(p)
	}
	if m.Engine.Shared() {
		p = m.alone(p)
	}
	kernel := "none"
	if p.Models[0].Manifest == nil {
		// Loaded here in addition to the pipeline, which does not report its kernel.
		loaded, err := tree.Load(p.Models[0].File)
		if err != nil {
			return "", err
		}
		p.Code.Models = map[string]model.Model{p.Models[0].Name: loaded}
		p.Models[0].Go, p.Models[0].File = p.Models[0].Name, ""
		_, kernel, _ = strings.Cut(loaded.Info().Describe, "kernel ")
		kernel, _, _ = strings.Cut(kernel, ",")
	}
	m.runner, err = m.Loader.New(p, pipeline.Options{Offline: true, Members: process.Members(m.options.Parallelism), Keys: m.options.Keys, KeyBytes: m.options.StateMemory / 4, Logger: m.Loader.Logger})
	if err != nil {
		return "", file.Explain(0, err)
	}
	return kernel, nil
}

func (m *measurement) print(name string, value float64, unit string) {
	fmt.Fprintf(m.Out, "%s %s %s\n", name, strconv.FormatFloat(value, 'f', -1, 64), unit)
}

const chunk = 2048 // events per append while the log is filled

// fill appends events, in order.
func (m *measurement) fill(s *source, events int) error {
	b := newBatch(m.runner.Input(), chunk)
	for done := 0; done < events; done += len(b.records) {
		b.fill(s, min(chunk, events-done))
		if err := m.records.Append(m.ctx, b.records...); err != nil {
			return err
		}
		m.meter.Show("%d of %d events appended", done, events)
	}
	return nil
}

// throughput fills the log, and then measures how fast the pipeline processes it.
func (m *measurement) throughput() error {
	s := m.work.source()
	defer s.stop()
	events := m.options.Warmup + m.options.Events
	// The first events are processed before the others are appended: a group that has committed
	// holds back retention.
	first := min(events, chunk)
	if err := m.fill(s, first); err != nil {
		return err
	}
	if err := m.whileRunning(func(ctx context.Context) error { return m.runner.WaitIdle(ctx, m.records) }); err != nil {
		return err
	}
	begin := time.Now()
	if err := m.fill(s, events-first); err != nil {
		return err
	}
	m.print("append_events_per_second", rounded(float64(events-first)/time.Since(begin).Seconds(), 0), "events/s")
	runtime.GC()
	var read *tails
	var after usageOf
	warm := m.decided() // if those are enough to warm up
	before, err := m.profile.begin()
	if err != nil {
		return err
	}
	err = m.whileRunning(func(ctx context.Context) (err error) {
		if m.options.Digest {
			read = newTails(m.records, func(stream.Partition) consumer { return newDigest() })
			if err := read.start(ctx, m.runner.Outputs(), false); err != nil {
				return err
			}
		}
		if warm < m.options.Warmup {
			if err := m.waitDecided(ctx, m.options.Warmup); err != nil {
				return err
			}
			warm = m.decided()
			if before, err = m.profile.begin(); err != nil {
				return err
			}
		}
		if err := errors.Join(m.waitDecided(ctx, events), m.runner.WaitIdle(ctx, m.records)); err != nil { // polling brokers all the time would disturb the measurement
			return err
		}
		after = m.profile.end()
		return read.end(ctx)
	})
	if err != nil {
		return err
	}
	m.figures(before, after, float64(events-warm))
	m.phases(m.runner.Phases()[1:], quantiles[1:2]) // without the queue phase, because the log was filled before
	m.memory()
	if !m.options.Digest {
		return nil
	}
	return m.digests(read)
}

func (m *measurement) decided() int { return int(m.runner.Counts().Events) }

// waitDecided waits until the pipeline has computed a number of events.
func (m *measurement) waitDecided(ctx context.Context, events int) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for m.decided() < events {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

func (m *measurement) figures(before, after usageOf, events float64) {
	took, cpu := after.at.Sub(before.at), after.cpu-before.cpu
	m.print("events_per_second", rounded(events/took.Seconds(), 0), "events/s")
	m.print("events_per_cpu_second", rounded(events/cpu.Seconds(), 0), "events/s")
	m.print("cpu_us_per_event", rounded(float64(cpu.Nanoseconds())/1e3/events, 3), "us")
	m.print("allocs_per_event", rounded(float64(after.memory.Mallocs-before.memory.Mallocs)/events, 3), "allocs")
	m.print("bytes_per_event", rounded(float64(after.memory.TotalAlloc-before.memory.TotalAlloc)/events, 1), "B")
	m.print("cpu_cores_used", rounded(cpu.Seconds()/took.Seconds(), 3), "cores")
}

// memory prints the memory of the process and the size of the state.
func (m *measurement) memory() {
	if now, peak, ok := residentBytes(); ok {
		m.print("rss_mb", rounded(float64(now)/1e6, 1), "MB")
		m.print("rss_peak_mb", rounded(float64(peak)/1e6, 1), "MB")
	}
	log, ok := m.records.(interface{ Stats() embedded.Stats })
	if !ok {
		return
	}
	s := log.Stats()
	m.print("state_mb", rounded(float64(s.State.Bytes)/1e6, 1), "MB")
	m.print("state_evictions", float64(s.State.Evictions), "cells")
	m.print("log_bytes_per_event", rounded(float64(s.Bytes)/float64(m.runner.Counts().Events), 1), "B")
}

// quantile is a share of events, with its name in the output.
type quantile struct {
	name  string
	share float64
}

var quantiles = []quantile{{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}}

// phases prints quantiles of the time of events in phases.
func (m *measurement) phases(phases []observe.Phase, of []quantile) {
	for _, phase := range phases {
		s := m.runner.Snapshot().Phases[phase.String()].Histogram
		for _, q := range of {
			m.print(phase.String()+"_"+q.name, milliseconds(s.Quantile(q.share)), "ms")
		}
	}
}

func rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// whileRunning runs the pipeline until work returns, and shows the progress.
func (m *measurement) whileRunning(work func(context.Context) error) error {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.runner.Run(ctx, m.records) })
	group.Go(func() error {
		defer stop()
		return work(ctx)
	})
	group.Go(func() error {
		ticker := time.NewTicker(term.MeterEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				m.meter.Show("%d events decided, %s", m.decided(), m.meter.Rate(int64(m.decided())))
			}
		}
	})
	return errors.Join(group.Wait(), m.ctx.Err())
}
