package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

const (
	benchPrefix = "afterbay-bench-" // prefix of names on brokers
	benchSettle = 5 * time.Second   // start of a schedule that is not measured
	benchClean  = 30 * time.Second  // time to delete what the measurement created
)

// settle returns how long a schedule on Kafka, or through a repartition topic, runs before it is
// measured. Meanwhile clients connect, the brokers create their own topics, and all partitions get
// their frontiers.
func (c *Options) settle() time.Duration { return min(benchSettle, c.Duration) }

func (m *measurement) settle() time.Duration {
	if m.Engine.Shared() || m.options.Repartition > 0 {
		return m.options.settle()
	}
	return 0
}

// alone gives a pipeline and its topics unique names.
func (m *measurement) alone(p lang.Pipeline) lang.Pipeline {
	p.Name = benchPrefix + strings.ToLower(rand.Text()[:10])
	p.Input.Topic = p.Name + "-" + p.Input.Topic
	for _, step := range p.Steps {
		if e, ok := step.(*steps.Emit); ok {
			e.Topic = p.Name + "-" + e.Topic
		}
	}
	if m.options.Delivery != "" {
		p.Delivery = lang.Delivery(m.options.Delivery)
	}
	m.deliveries = map[string]stream.Delivery{p.Name: process.DeliveryOf(p.Delivery)}
	return p
}

// scratch returns the name of the topic that a calibration writes.
func (m *measurement) scratch() string { return m.runner.Name() + "-scratch" }

// remover is a log that outlives the process. Remove deletes what a pipeline left in it.
type remover interface {
	Remove(ctx context.Context, group string, topics ...string) error
}

// open opens the log. The returned function closes it, and deletes the measurement's data on
// brokers.
func (m *measurement) open() (closeLog func() error, err error) {
	log, err := m.Engine.Open(m.ctx, m.Loader.Logger, stream.Process{
		Dir: m.Engine.Folder(m.data), Leave: true, Deliveries: m.deliveries,
		StateBytes: m.options.StateMemory - m.options.StateMemory/4, RetainBytes: m.options.RetentionBytes,
	})
	if err != nil {
		return nil, err
	}
	m.records = log
	remover, ok := log.(remover)
	if !ok {
		return log.Close, nil
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), benchClean)
		defer cancel()
		err := remover.Remove(ctx, m.runner.Name(), append(m.runner.Outputs(), m.runner.Input(), m.scratch())...)
		return errors.Join(err, log.Close())
	}, nil
}

// waitReady waits until the pipeline has its partitions. Only Kafka takes time to assign them.
func (m *measurement) waitReady(ctx context.Context) error {
	if m.Engine.Shared() {
		return process.WaitAssigned(ctx, m.records, m.runner)
	}
	return nil
}

// calibrateOnKafka returns how many cores it takes to append on the schedule, after the connections
// have warmed up.
func (m *measurement) calibrateOnKafka() (cores float64, err error) {
	topics, err := m.records.Topics(m.ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range topics {
		if t.Name == m.runner.Input() {
			t.Name = m.scratch()
			if err := m.records.CreateTopic(m.ctx, t); err != nil {
				return 0, err
			}
		}
	}
	source := m.work.source()
	defer source.stop()
	warm := min(calibration, m.options.Duration)
	s := m.schedule(source, warm+m.settle())
	s.topic, s.start = m.scratch(), time.Now()
	var group errgroup.Group
	group.Go(func() error { return s.run(m.ctx, m.records.Append) })
	err = until(m.ctx, s.start.Add(warm))
	before, counts := cpuNow(), time.Now()
	err = errors.Join(err, group.Wait())
	return (cpuNow() - before).Seconds() / time.Since(counts).Seconds(), err
}

// lagWatch checks the lag of the pipeline every second.
type lagWatch struct {
	*measurement
	meter observe.LagMeter
	most  time.Duration
}

// watch checks the lag until the returned function is called. That function waits for the last
// check.
func (w *lagWatch) watch(ctx context.Context) (stop func() error) {
	if w.options.MaxLag == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				done <- nil
				return
			}
			if err := w.look(ctx); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-done }
}

func (w *lagWatch) look(ctx context.Context) error {
	lags, err := w.meter.Measure(ctx, w.records, w.runner.Reads()...)
	for _, l := range lags {
		w.most = max(w.most, l.Age())
	}
	return err
}

// report prints the largest lag, and returns an error if it exceeds the limit.
func (w *lagWatch) report() error {
	if w.options.MaxLag == 0 {
		return nil
	}
	w.print("lag_max", milliseconds(w.most), "ms")
	if w.most > w.options.MaxLag {
		return fmt.Errorf("the pipeline was %v behind, more than %v", w.most.Round(time.Millisecond), w.options.MaxLag)
	}
	return nil
}
