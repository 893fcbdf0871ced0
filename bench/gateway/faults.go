package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"
)

// scorePipeline calls the worker in batches. Events with a call that failed by the worker's fault are
// queued and retried.
const scorePipeline = `pipeline: chat
input:
  topic: messages
  partitions: 2
  key: user
  fields: {user: string, text: string}
commit: {interval: 5ms}
models:
  risk: {file: risk.yaml, version: 1, outputs: {score: number}, call: {timeout: 1s, backoff: {base: 100ms, max: 2s}, breaker: {failures: 5, probe: 500ms, open: queue}}}
steps:
  - score: {model: risk, inputs: [text], batch: {size: 32, wait: 10ms}}
  - emit: {topic: decisions, value: [user, risk.score]}
`

const riskManifest = `model: risk
version: 1
kind: remote
inputs: {text: string}
outputs: [score]
remote: {endpoint: "http://%s/score", api: http, mapping: {rows: instances, results: predictions, send: {text: text}}}
`

// design is one of the compared designs.
type design struct {
	name           string
	start          func(worker string) (*process, error)
	resumes, again bool
	patience       time.Duration // after it a missing result counts as lost
}

// designs returns the compared designs; ours is the last. A naive design has given up or lost an
// event without a result after naivePatience.
func (b *bench) designs() []design {
	naive := func(worker string) (*process, error) {
		return b.startServer(naiveServer, []string{workerEnv + "=" + worker})
	}
	return []design{
		{"naive", naive, false, false, naivePatience},
		{"naive_again", naive, false, true, naivePatience},
		{"ours", func(worker string) (*process, error) {
			return b.startOurs(settings{pipeline: scorePipeline, files: map[string]string{"risk.yaml": fmt.Sprintf(riskManifest, worker)}})
		}, true, true, 2 * time.Minute},
	}
}

const naivePatience = 15 * time.Second

// faults runs each design with its own worker, and some of the worker's calls fail or hang. The
// worker is killed and away for 2 s. The process that clients connect to is killed and restarted,
// and connections are cut all the time.
func faults(ctx context.Context, b *bench) error {
	curves := map[string][]float64{}
	var names []string
	for _, d := range b.designs() {
		times, err := b.suffer(ctx, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		curves[d.name] = times
		names = append(names, d.name)
	}
	return b.picture("faults", curves, names...)
}

// suffer runs a design under faults, prints its figures and returns its latencies.
func (b *bench) suffer(ctx context.Context, d design) ([]float64, error) {
	worker, err := b.startServer(workerServer, []string{fmt.Sprintf("%s=%d", seedEnv, b.seed)})
	if err != nil {
		return nil, err
	}
	defer func() { worker.stop() }()
	serves, err := d.start(worker.address)
	if err != nil {
		return nil, err
	}
	defer func() { serves.stop() }()
	f := b.newFleet(d.name, serves, max(1, b.clients/5), 1, d.resumes)
	f.again = d.again
	defer func() { f.end() }()
	if err := f.connect(ctx); err != nil {
		return nil, serves.explain(err)
	}
	var did load
	disturbed := make(chan error, 1)
	go func() { disturbed <- b.disturb(ctx, f, worker, serves, &did) }()
	if err := f.publish(ctx, max(1, b.rate/20), b.faulty); err != nil {
		return nil, err
	}
	if err := <-disturbed; err != nil {
		return nil, serves.explain(err)
	}
	if err := f.answered(ctx, d.patience); err != nil {
		return nil, err
	}
	last, err := loadOf(ctx, worker)
	if err != nil {
		return nil, err
	}
	did.add(last)
	b.suffered(d, f, did)
	if d.resumes {
		return f.latencies(0), f.sound()
	}
	return f.latencies(0), nil
}

// suffered prints how a design handled the faults.
func (b *bench) suffered(d design, f *fleet, did load) {
	c := f.counted()
	lost, accepted := f.lost()
	name := "faults." + d.name + "."
	b.figure(name+"events", float64(c.published), "events")
	b.figure(name+"lost", float64(lost), "events")
	b.figure(name+"failed", float64(c.failed), "events")
	b.figure(name+"repeated", float64(c.repeats), "results")
	if d.resumes {
		b.held(name+"accepted_lost", float64(accepted), "events", 0)
		b.held(name+"holes", float64(c.holes), "holes", 0)
	}
	times := sortedFinite(f.latencies(0))
	for _, q := range quantiles {
		b.figure(name+q.name, quantile(times, q.at), "ms")
	}
	answered := max(1, float64(c.ok))
	perMillion := did.Busy.Seconds() / answered * 1e6
	b.figure(name+"worker_calls_per_event", float64(did.Calls)/answered, "calls")
	b.figure(name+"worker_rows_per_event", float64(did.Rows)/answered, "rows")
	b.figure(name+"worker_time_per_million", perMillion, "s")
	b.figure(name+"workers_for_a_million_an_hour", perMillion/3600, "workers")
}

const (
	workerAway = 2 * time.Second
	cutsEach   = 100 * time.Millisecond // interval between cuts of a connection
)

// disturb cuts connections all the time. It kills the worker after a third of the time, and the
// process that clients connect to after two thirds.
func (b *bench) disturb(ctx context.Context, f *fleet, worker, serves *process, did *load) error {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { cuts(ctx, f, b.seed) })
	for _, step := range []func() error{
		func() error {
			l, err := loadOf(ctx, worker)
			did.add(l) // the restarted worker has lost its counts
			worker.kill()
			fmt.Fprintf(os.Stderr, "faults: %s: the worker is killed\n", f.run)
			return err
		},
		func() error { return worker.start() },
		func() error {
			serves.kill()
			fmt.Fprintf(os.Stderr, "faults: %s: the gateway is killed\n", f.run)
			return serves.start()
		},
		func() error { return nil },
	} {
		wait := b.faulty / 3
		if worker.gone() {
			wait = workerAway
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func cuts(ctx context.Context, f *fleet, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	ticker := time.NewTicker(cutsEach)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.clients[random.IntN(len(f.clients))].cut()
		case <-ctx.Done():
			return
		}
	}
}

// loadOf requests the counts of a worker.
func loadOf(ctx context.Context, worker *process) (l load, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+worker.address+"/load", nil)
	if err != nil {
		return l, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return l, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(body, &l)
}
