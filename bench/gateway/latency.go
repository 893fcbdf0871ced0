package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const settle = 0.2 // part of a round that does not count

var quantiles = [...]struct {
	name string
	at   float64
}{{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}}

// latency lets clients send events to a bare echo and to ours, alternately. The echo measures the
// cost of the machine, the library and the generator.
func latency(ctx context.Context, b *bench) error {
	bare, err := b.startServer(echoServer, nil)
	if err != nil {
		return err
	}
	defer bare.stop()
	ours, err := b.startOurs(settings{pipeline: decidePipeline})
	if err != nil {
		return err
	}
	defer ours.stop()
	found := map[string]map[string][]float64{"echo": {}, "ours": {}}
	curves := map[string][]float64{}
	for round := range b.rounds {
		for _, on := range []struct {
			name    string
			process *process
			resumes bool
		}{{"echo", bare, false}, {"ours", ours, true}} {
			f := b.newFleet(fmt.Sprintf("%s%d", on.name, round), on.process, b.clients, 1, on.resumes)
			used := on.process.cpu()
			times, err := f.round(ctx, b.rate, b.length)
			if err != nil {
				return on.process.explain(err)
			}
			for _, q := range quantiles {
				found[on.name][q.name] = append(found[on.name][q.name], quantile(times, q.at))
			}
			found[on.name]["cpu"] = append(found[on.name]["cpu"], float64(on.process.cpu()-used)/float64(time.Microsecond)/float64(f.count.published))
			curves[on.name] = append(curves[on.name], times...)
			fmt.Fprintf(os.Stderr, "latency: round %d of %d: %s: p50 %.2f ms, p99 %.2f ms\n", round+1, b.rounds, on.name, quantile(times, 0.5), quantile(times, 0.99))
		}
	}
	for _, name := range []string{"echo", "ours"} {
		for _, q := range quantiles {
			b.figure("latency."+name+"."+q.name, median(found[name][q.name]), "ms")
		}
		b.figure("latency."+name+".cpu_per_event", median(found[name]["cpu"]), "us")
	}
	p99 := median(found["ours"]["p99"])
	b.held("latency.p99", p99, "ms", 120)
	b.held("latency.p99_beyond_echo", p99-median(found["echo"]["p99"]), "ms", 30)
	return b.picture("latency", curves, "echo", "ours")
}

// round connects, publishes and returns the latencies.
func (f *fleet) round(ctx context.Context, rate int, length time.Duration) ([]float64, error) {
	defer func() { f.end() }()
	if err := f.connect(ctx); err != nil {
		return nil, err
	}
	if err := f.publish(ctx, rate, length); err != nil {
		return nil, err
	}
	if err := f.answered(ctx, time.Minute); err != nil {
		return nil, err
	}
	return f.latencies(settle), f.sound()
}
