package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// bench measures systems on one broker. Topics and ids of a run begin with its name, so that no run
// reads leftovers of another.
type bench struct {
	options
	broker *broker
	want   []float32 // score of each event
}

// figure is one line of the output.
type figure struct {
	name  string
	value float64
	unit  string
}

const (
	sampleEvery = 50 * time.Millisecond
	quietFor    = 3 * time.Second
	stalledFor  = time.Minute
	steadyFrom  = 0.30 // of the events: what comes before is warm-up
	steadyTo    = 0.97
	settle      = 5 * time.Second // of a schedule, before latencies count
	zipf        = 1
	inputTopic  = "peers-posts"
)

func newGenerator(seed uint64) *baseline.Generator {
	return baseline.NewGenerator(baseline.Options{Seed: seed, Zipf: zipf})
}

// load computes the reference and writes the input of all drains.
func (b *bench) load(ctx context.Context) error {
	reference, err := newReference()
	if err != nil {
		return err
	}
	if err := b.broker.deleteTopics(ctx, "peers-"); err != nil {
		return err
	}
	if err := b.broker.createTopic(ctx, inputTopic); err != nil {
		return err
	}
	count := b.events
	for _, rate := range b.rates {
		count = max(count, b.warm+rate*b.seconds)
	}
	var failed error // of a record; read after the flush
	generator := newGenerator(b.seed)
	for i := range count {
		line, key := generator.Append(nil)
		score, err := reference.score(line)
		if err != nil {
			return err
		}
		b.want = append(b.want, score)
		if i >= b.events {
			continue
		}
		b.broker.client.Produce(ctx, &kgo.Record{Topic: inputTopic, Key: key, Value: line}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := b.broker.client.Flush(ctx); err != nil {
		return err
	}
	return failed
}

// prepare makes folder and output of a run, and the pipeline file of ours, with
// further lines.
func (b *bench) prepare(ctx context.Context, name, in, lines string) (run, error) {
	r := run{broker: b.broker.address, work: b.work, dir: filepath.Join(b.work, name), id: name, in: in, out: name + "-results"}
	if err := os.RemoveAll(r.dir); err != nil {
		return r, err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return r, err
	}
	pipeline, err := baseline.Files.ReadFile("pipeline.yaml")
	if err != nil {
		return r, err
	}
	model, err := baseline.Files.ReadFile("model.ubj")
	if err != nil {
		return r, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(r.dir, "pipeline.yaml"), r.pipeline(string(pipeline), lines), 0o644),
		os.WriteFile(filepath.Join(r.dir, "model.ubj"), model, 0o644))
	if err != nil {
		return r, err
	}
	return r, b.broker.createTopic(ctx, r.out)
}

// end deletes what a run left on the broker and, unless it is to be kept, on disk.
func (b *bench) end(ctx context.Context, r run) error {
	if err := b.broker.deleteTopics(ctx, r.id); err != nil {
		return err
	}
	if b.keep {
		return nil
	}
	return os.RemoveAll(r.dir)
}

// sample is the state at one moment.
type sample struct {
	at          time.Time
	count       float64 // results that can be read
	cpu, broker time.Duration
}

func (b *bench) sample(ctx context.Context, p *process, topic string) (sample, error) {
	s := sample{at: time.Now()}
	if err := p.check(ctx); err != nil {
		return s, err
	}
	n, err := b.broker.visible(ctx, topic)
	if err != nil {
		return s, err
	}
	s.count = float64(n)
	if s.cpu, err = procfs.CPU(p.command.Process.Pid); err != nil {
		return s, err
	}
	s.broker, err = b.broker.cpu()
	return s, err
}

// drain measures how fast a system processes the events of a topic.
func (b *bench) drain(ctx context.Context, name string, s system) ([]figure, error) {
	r, err := b.prepare(ctx, name, inputTopic, s.drainFile)
	if err != nil {
		return nil, err
	}
	p, err := begin(r.dir, r.fill(slices.Concat(s.argv, s.drain)), s.drainEnvironment)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	samples, err := b.watch(ctx, p, r.out)
	if err != nil {
		return nil, err
	}
	resident, err := procfs.Memory(p.command.Process.Pid, "VmHWM")
	if err != nil {
		return nil, err
	}
	p.stop()
	a, err := b.broker.readAll(ctx, r.out, b.want[:b.events])
	if err != nil {
		return nil, err
	}
	// Markers of transactions are taken out by their share.
	share := float64(a.records) / samples[len(samples)-1].count
	from, to := steady(samples, share, float64(b.events))
	events := (to.count - from.count) * share
	return append([]figure{
		{"events_per_second", events / to.at.Sub(from.at).Seconds(), "events/s"},
		{"cpu_per_event", perEvent(to.cpu-from.cpu, events), "us"},
		{"broker_cpu_per_event", perEvent(to.broker-from.broker, events), "us"},
		{"rss", float64(resident) / 1e6, "MB"},
	}, a.figures()...), b.end(ctx, r)
}

// watch samples until all results are there and no more come.
func (b *bench) watch(ctx context.Context, p *process, topic string) ([]sample, error) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var samples []sample
	for grown := time.Now(); ; <-ticker.C {
		s, err := b.sample(ctx, p, topic)
		if err != nil {
			return nil, err
		}
		if n := len(samples); n == 0 || s.count > samples[n-1].count {
			grown = s.at
		}
		samples = append(samples, s)
		quiet := s.at.Sub(grown)
		if s.count >= float64(b.events) && quiet > quietFor {
			return samples, nil
		}
		if quiet > stalledFor {
			return nil, fmt.Errorf("no result for %s after %.0f of %d: see %s", stalledFor, s.count, b.events, p.log)
		}
	}
}

// steady returns the first samples with the shares of the results that bound the measurement.
func steady(samples []sample, share, events float64) (from, to sample) {
	at := func(part float64) sample {
		i, _ := slices.BinarySearchFunc(samples, part*events, func(s sample, count float64) int {
			if s.count*share < count {
				return -1
			}
			return 1
		})
		return samples[min(i, len(samples)-1)]
	}
	return at(steadyFrom), at(steadyTo)
}

func perEvent(took time.Duration, events float64) float64 {
	return float64(took) / float64(time.Microsecond) / events
}

func (a *answers) figures() []figure {
	return []figure{
		{"scores_different", float64(a.differed), "events"},
		{"scores_different_most", a.most, "score"},
		{"results_lost", float64(len(a.want) - a.found), "events"},
		{"results_repeated", float64(a.repeated), "events"},
	}
}

// paced measures latency: from when an event is due by the schedule until a
// reader of committed records has its result.
func (b *bench) paced(ctx context.Context, name string, s system, rate int) ([]figure, error) {
	in := name + "-posts"
	r, err := b.prepare(ctx, name, in, s.pacedFile)
	if err != nil {
		return nil, err
	}
	if err := b.broker.createTopic(ctx, in); err != nil {
		return nil, err
	}
	n := b.warm + rate*b.seconds
	produce := b.producer(ctx, in)
	for range b.warm {
		produce()
	}
	p, err := begin(r.dir, r.fill(slices.Concat(s.argv, s.paced)), nil)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	l := &latencies{answers: newAnswers(b.want[:n]), at: make([]time.Time, n)}
	reader, err := b.broker.reader(r.out)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if err := l.read(ctx, p, reader, b.warm); err != nil {
		return nil, err
	}
	made := make(chan schedule, 1)
	go func() { made <- b.follow(ctx, p, produce, rate) }()
	err = l.read(ctx, p, reader, n)
	schedule := <-made
	if err = errors.Join(err, schedule.err); err != nil {
		return nil, err
	}
	p.stop()
	from := b.warm + int(settle.Seconds())*rate
	took := l.since(from, func(i int) time.Time { return schedule.due(i-b.warm, rate) })
	events := float64(n - from)
	return append([]figure{
		{"latency_p50", quantile(took, 0.50), "ms"},
		{"latency_p99", quantile(took, 0.99), "ms"},
		{"latency_p999", quantile(took, 0.999), "ms"},
		{"cpu_per_event", perEvent(schedule.to.cpu-schedule.from.cpu, events), "us"},
		{"broker_cpu_per_event", perEvent(schedule.to.broker-schedule.from.broker, events), "us"},
	}, l.answers.figures()...), b.end(ctx, r)
}
