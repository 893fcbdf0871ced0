package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/examples/fraud"
	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/observe"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
)

// measurement runs the fraud example and measures it.
type measurement struct {
	*app
	options *benchCommand
	runner  *afterbay.Runner
	log     *embedded.Log
}

func (m *measurement) run() (err error) {
	dir := m.options.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "afterbay-bench-"); err != nil {
			return fmt.Errorf("%w: name a folder with --dir", err)
		}
	}
	example, err := newExample(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if m.runner, err = example.load(m.app, m.options.Sessions, m.options.CommitInterval); err != nil {
		return err
	}
	if m.log, err = m.openLog(example.data()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.log.Close()) }()
	if err := m.runner.CreateTopics(m.ctx, m.log); err != nil {
		return err
	}
	if m.options.Rate > 0 {
		return m.latency()
	}
	return m.throughput()
}

func (m *measurement) print(name string, value float64, unit string) {
	fmt.Fprintf(m.stdout, "%s %s %s\n", name, strconv.FormatFloat(value, 'f', -1, 64), unit)
}

// usageOf is what the process has used.
type usageOf struct {
	at     time.Time
	cpu    time.Duration
	memory runtime.MemStats
}

func usageNow() usageOf {
	var u usageOf
	var r syscall.Rusage
	runtime.ReadMemStats(&u.memory)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	u.at = time.Now()
	return u
}

// throughput fills the log, and then measures the pipeline working it off.
func (m *measurement) throughput() error {
	events := m.options.Events
	source, end := payments(fraud.Options{Seed: m.options.Seed, Events: events})
	begin := time.Now()
	_, err := ingest.Publish(m.ctx, m.log, source, ingest.Options{Topic: exampleTopic, Key: "customer", Producer: "bench"})
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	m.print("ingest_events_per_second", round(float64(events)/time.Since(begin).Seconds(), 0), "events/s")
	runtime.GC()
	before := usageNow()
	if err := m.whileRunning(func(ctx context.Context) error { return m.runner.WaitIdle(ctx, m.log) }); err != nil {
		return err
	}
	m.figures(before, usageNow(), float64(events))
	for _, hop := range observe.Hops[1:] { // the queue was filled before
		s := m.runner.Metrics().Hop(hop)
		m.print(hop.String()+"_p99", round(s.Quantile(0.99).Seconds()*1e3, 3), "ms")
	}
	return nil
}

func (m *measurement) figures(before, after usageOf, events float64) {
	took := after.at.Sub(before.at)
	m.print("events_per_second", round(events/took.Seconds(), 0), "events/s")
	m.print("cpu_us_per_event", round(float64((after.cpu-before.cpu).Nanoseconds())/1e3/events, 3), "us")
	m.print("allocs_per_event", round(float64(after.memory.Mallocs-before.memory.Mallocs)/events, 3), "allocs")
	m.print("bytes_per_event", round(float64(after.memory.TotalAlloc-before.memory.TotalAlloc)/events, 1), "B")
	m.print("cpu_cores_used", round((after.cpu-before.cpu).Seconds()/took.Seconds(), 3), "cores")
}

func round(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// whileRunning runs the pipeline until work returns.
func (m *measurement) whileRunning(work func(context.Context) error) error {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.runner.Run(ctx, m.log) })
	group.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return errors.Join(group.Wait(), m.ctx.Err())
}

// latency appends events by a schedule that does not wait for anything, and
// measures from each event's place in it until its decision can be read.
func (m *measurement) latency() error {
	events := int(float64(m.options.Rate) * m.options.Duration.Seconds())
	schedule := &schedule{rate: m.options.Rate, places: make(map[stream.Partition][]int)}
	for line := range fraud.Events(fraud.Options{Seed: m.options.Seed, Events: events}) {
		schedule.lines = append(schedule.lines, line)
	}
	var readings []reading
	var before, after usageOf
	err := m.whileRunning(func(ctx context.Context) error {
		tails, err := tailDecisions(ctx, m.log, m.runner.Outputs()[0])
		if err != nil {
			return err
		}
		before = usageNow()
		if err := schedule.run(ctx, m.log); err != nil {
			return err
		}
		if err := m.runner.WaitIdle(ctx, m.log); err != nil {
			return err
		}
		after = usageNow()
		readings, err = tails.end(ctx)
		return err
	})
	if err != nil {
		return err
	}
	m.figures(before, after, float64(events))
	return m.latencies(schedule, readings)
}

// latencies prints the quantiles.
func (m *measurement) latencies(s *schedule, readings []reading) error {
	found := make([]time.Duration, 0, len(readings))
	for _, r := range readings {
		places := s.places[r.partition]
		if int(r.offset) >= len(places) {
			return fmt.Errorf("a decision about %v@%d, which was not appended", r.partition, r.offset)
		}
		found = append(found, r.at.Sub(s.due(places[r.offset])))
	}
	if len(found) == 0 {
		return errors.New("no decisions came: use more events")
	}
	slices.Sort(found)
	for _, q := range []struct {
		name  string
		share float64
	}{{"latency_p50", 0.5}, {"latency_p99", 0.99}, {"latency_p999", 0.999}} {
		m.print(q.name, round(found[min(int(q.share*float64(len(found))), len(found)-1)].Seconds()*1e3, 3), "ms")
	}
	m.print("latency_max", round(found[len(found)-1].Seconds()*1e3, 3), "ms")
	m.print("decisions", float64(len(found)), "records")
	return nil
}
