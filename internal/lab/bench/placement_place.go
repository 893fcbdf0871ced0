package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/clean"
	"github.com/afterbay/afterbay/internal/sys/procfs"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

const (
	placementSettle = 2 * time.Second        // start of a schedule that is not measured
	differMost      = 1e-3                   // allowed difference between scores of one row on other hardware, relative to the larger of 1 and the score
	placementLook   = 100 * time.Millisecond // interval between reads of the timings
)

// placed is a pipeline with its model in one place. Two places are compared.
type placed struct {
	*Program
	ctx      context.Context
	file     *config.File
	index    int // of the pipeline
	pipeline lang.Pipeline
	model    *lang.Model // of pipeline.Models
	path     string      // of the model
	loaded   model.Model // the model inside the process
	events   func() *source
	from     string // description of the events
}

// load loads the pipeline, its model and its events.
func (c *PlacementOptions) load(ctx context.Context, program *Program) (*placed, error) {
	file, err := config.Load(c.File, program.Loader.Kinds)
	if err != nil {
		return nil, failure.As(failure.OfFiles, err)
	}
	p := &placed{Program: program, ctx: ctx, file: file}
	if p.index, err = c.choose(file); err != nil {
		return nil, err
	}
	p.pipeline = file.Pipelines[p.index]
	if p.model, err = c.chooseModel(&p.pipeline); err != nil {
		return nil, err
	}
	in := &p.pipeline.Input
	if len(p.pipeline.Inputs) > 0 {
		return nil, failure.Usage("pipeline %s has several inputs, and no load is generated for them: use a pipeline with one input", p.pipeline.Name)
	}
	in.Repartition = 0 // the load is already keyed by the pipeline's own key
	// Appends overtake each other by about a millisecond. A pipeline need not allow for that with
	// its own producers.
	in.Time.Late, in.Time.LateTo = "include", ""
	if p.path = p.model.File; p.path == "" {
		return nil, failure.Usage("model %s is not a file: it can be placed only by its program", p.model.Name)
	}
	if p.loaded, err = program.Load(p.path); err != nil {
		return nil, err
	}
	switch info := p.loaded.Info(); {
	case info.Kind == "remote":
		return nil, failure.Usage("model %s is behind an endpoint already: name a pipeline file that has it inside, and the endpoint with --endpoint", p.model.Name)
	case info.State > 0:
		return nil, failure.Usage("model %s has a state by key, which endpoints do not keep: embed it", p.model.Name)
	}
	p.events, p.from, err = c.eventsFor(ctx, program, in)
	return p, err
}

// choose returns the index of the pipeline in the file.
func (c *PlacementOptions) choose(file *config.File) (int, error) {
	var names []string
	found := -1
	for i, p := range file.Pipelines {
		if len(p.Models) == 0 || c.Pipeline != "" && p.Name != c.Pipeline {
			continue
		}
		names, found = append(names, p.Name), i
	}
	switch {
	case len(names) > 1:
		return 0, failure.Usage("%s has several pipelines with models: choose one of %s by --pipeline", file.Name, strings.Join(names, ", "))
	case found < 0 && c.Pipeline != "":
		return 0, failure.Usage("%s has no pipeline %s with a model", file.Name, c.Pipeline)
	case found < 0:
		return 0, failure.Usage("%s has no model", file.Name)
	}
	return found, nil
}

// chooseModel returns the model to compare placements for.
func (c *PlacementOptions) chooseModel(p *lang.Pipeline) (*lang.Model, error) {
	var names []string
	for i := range p.Models {
		if m := &p.Models[i]; m.Name == c.Model || c.Model == "" && len(p.Models) == 1 {
			return m, nil
		}
		names = append(names, p.Models[i].Name)
	}
	return nil, failure.Usage("pipeline %s has several models: choose one of %s by --model", p.Name, strings.Join(names, ", "))
}

// runner creates the pipeline with the model in a place.
func (p *placed) runner(m model.Model, members int) (*pipeline.Runner, error) {
	p.pipeline.Code.Models = map[string]model.Model{p.model.Name: m}
	p.model.Go, p.model.File = p.model.Name, ""
	r, err := p.Loader.New(p.pipeline, pipeline.Options{Offline: true, Members: process.Members(members), Logger: p.Loader.Logger, Reach: true})
	if err != nil {
		return nil, failure.CannotRun(p.file.Explain(p.index, err))
	}
	return r, nil
}

// atEndpoint is a model behind an endpoint. It compares the first answer with the model inside the
// process and then releases that model, because the measured instance must not hold it.
type atEndpoint struct {
	*remote.Model
	policy  model.Policy // of the model inside
	first   sync.Once
	inside  model.Model
	differs error // set if the endpoint has another model
}

// Info describes the model.
func (m *atEndpoint) Info() model.Info {
	info := m.Model.Info()
	info.Batch = m.policy
	return info
}

// Predict calls the endpoint.
func (m *atEndpoint) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	err := m.Model.Predict(ctx, rows, scores)
	if err == nil {
		m.first.Do(func() { m.differs = m.compare(ctx, rows, scores) })
	}
	return err
}

func (m *atEndpoint) compare(ctx context.Context, rows model.Rows, scores []float32) error {
	want := make([]float32, rows.Len()*m.Info().Scores())
	if err := m.inside.Predict(ctx, rows, want); err != nil {
		return err
	}
	for i, w := range want {
		if off := math.Abs(float64(w) - float64(scores[i])); off > differMost*max(1, math.Abs(float64(w))) {
			return fmt.Errorf("the endpoint scores %v where the model inside scores %v: it has another model or version", scores[i], w)
		}
	}
	models.Close(m.inside)
	m.inside = nil
	debug.FreeOSMemory()
	return nil
}

// outside connects to the model behind the endpoint.
func (p *placed) outside(c *PlacementOptions) (*atEndpoint, error) {
	info := p.loaded.Info()
	o := remote.Options{URL: c.Endpoint, Model: c.EndpointModel, Bearer: c.Token}
	if o.Model == "" {
		o.Model = p.model.Name
	}
	for i, in := range info.Inputs {
		if in.Name == "" {
			in.Name = fmt.Sprintf("f%d", i)
		}
		o.Inputs = append(o.Inputs, in)
	}
	if len(info.Outputs) == 1 {
		o.Outputs = []model.Output{{Size: info.Outputs[0].Size}}
	}
	m, err := remote.Load(p.ctx, o)
	if err != nil {
		return nil, err
	}
	at := &atEndpoint{Model: m, policy: info.Batch, inside: p.loaded}
	p.loaded = nil
	return at, nil
}

// measure runs the pipeline with the model in its place.
func (p *placed) measure(c *PlacementOptions) (_ *Placement, err error) {
	used := p.loaded
	if c.Place == "endpoint" {
		at, cause := p.outside(c)
		if cause != nil {
			return nil, cause
		}
		defer func() { err = errors.Join(err, at.differs, at.Close()) }()
		used = at
	}
	m := &measurement{
		Program: p.Program, ctx: p.ctx, work: work{source: p.events}, meter: term.NewMeter(p.Err),
		options: &Options{Parallelism: c.Parallelism, Schedule: Schedule{Rate: c.Rate, Duration: c.Duration}},
	}
	if m.runner, err = p.runner(used, c.Parallelism); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "afterbay-placement-")
	if err != nil {
		return nil, failure.As(failure.OfDirectory, fmt.Errorf("%w: name a folder with --dir", err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m.data = filepath.Join(dir, "data")
	closeLog, err := m.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if err := m.runner.CreateTopics(m.ctx, m.records); err != nil {
		return nil, err
	}
	defer m.meter.Clear()
	return m.passing()
}

// passing appends events on a schedule, and measures the phases of each event.
func (m *measurement) passing() (*Placement, error) {
	source := m.work.source()
	defer source.stop()
	settle := min(placementSettle, m.options.Duration)
	s := m.schedule(source, settle+m.options.Duration)
	h := &phaseTimes{runner: m.runner, partitions: map[int32]*arrivals{}}
	read := newTails(m.records, func(p stream.Partition) consumer {
		h.partitions[p.Index] = &arrivals{}
		return h.partitions[p.Index]
	})
	placement := &Placement{}
	err := m.whileRunning(func(ctx context.Context) error {
		s.start = time.Now()
		h.counts = s.start.Add(settle)
		if err := read.start(ctx, []string{m.runner.Input()}, false); err != nil {
			return err
		}
		done := make(chan struct{})
		var group errgroup.Group
		group.Go(func() error {
			defer close(done)
			if err := s.run(ctx, m.records.Append); err != nil {
				return err
			}
			placement.Memory = procfs.Resident(os.Getpid())
			waiting, cancel := context.WithTimeout(ctx, settle+m.options.Duration)
			defer cancel()
			err := m.runner.WaitIdle(waiting, m.records)
			if waiting.Err() != nil {
				placement.Unended, err = s.events-int64(m.decided()), ctx.Err()
			}
			return err
		})
		h.watch(done)
		if err := errors.Join(group.Wait(), read.end(ctx)); err != nil {
			return err
		}
		h.collect()
		return nil
	})
	if err != nil {
		return nil, err
	}
	counts := m.runner.Counts()
	placement.Phases, placement.Sum = h.figures()
	placement.Events, placement.Measured, placement.Lost = s.events, h.sum.count, int64(counts.DeadLetters)
	if placement.LostWhy, err = m.firstLost(); err != nil {
		return nil, err
	}
	if counts.ModelRows == 0 || placement.Lost > placement.Events/2 {
		return nil, fmt.Errorf("of %d events %d became dead letters and %d rows reached models, so the measurement is not valid: %s: give events that fit the pipeline with --events FILE",
			placement.Events, placement.Lost, counts.ModelRows, cmp.Or(placement.LostWhy, "none is scored"))
	}
	return placement, nil
}

// firstLost returns why an event became a dead letter, or "" if there are no dead letters.
func (m *measurement) firstLost() (string, error) {
	topic := m.runner.Outputs()[len(m.runner.Outputs())-1]
	topics, err := m.records.Topics(m.ctx)
	if err != nil {
		return "", err
	}
	for _, t := range topics {
		for index := range t.Partitions {
			p := stream.Partition{Topic: topic, Index: index}
			if t.Name != topic {
				break
			}
			first, next, err := m.records.Offsets(m.ctx, p)
			if err != nil {
				return "", err
			}
			if first == next {
				continue // a tail would wait for more records
			}
			for r, err := range m.records.Tail(m.ctx, p, first) {
				return fmt.Sprintf("%s: %s", header.Get(&r, header.Stage), clean.Text(header.Get(&r, header.Error))), err
			}
		}
	}
	return "", nil
}

// arrivals are the arrival times of the events of a partition.
type arrivals struct {
	mu    sync.Mutex // guards all fields
	first int64      // offset of times[0]
	times []time.Time
}

func (a *arrivals) consume(r *stream.Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, r.Time)
	return nil
}

// take returns the arrival times of the events of p, and forgets them and all earlier ones. It
// returns nil if they were taken before or have not arrived yet.
func (a *arrivals) take(p *observe.Timing) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, to := p.First-a.first, p.Next-a.first
	if from < 0 || to > int64(len(a.times)) {
		return nil
	}
	taken := a.times[from:to:to]
	a.first, a.times = p.Next, a.times[to:]
	return taken
}

// phaseTimes collects the time of events in each phase. It combines the timings that a pipeline
// keeps with the arrival times of events, so the measurement does not change how the pipeline runs.
type phaseTimes struct {
	runner     *pipeline.Runner
	partitions map[int32]*arrivals
	counts     time.Time // earlier events are not measured
	phases     [len(observe.Phases)]times
	sum        times
}

// watch collects until done is closed.
func (h *phaseTimes) watch(done <-chan struct{}) {
	ticker := time.NewTicker(placementLook)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			h.collect()
		}
	}
}

// collect adds the events that the pipeline committed since the last call.
func (h *phaseTimes) collect() {
	timings := h.runner.Timings()
	slices.SortFunc(timings, func(a, b observe.Timing) int { return cmp.Compare(a.First, b.First) })
	for _, p := range timings {
		for _, came := range h.partitions[p.Partition].take(&p) {
			if !came.Before(h.counts) {
				h.add(&p, came)
			}
		}
	}
}

// add records the phases of an event of p with its arrival time.
func (h *phaseTimes) add(p *observe.Timing, came time.Time) {
	for phase, took := range [...]time.Duration{observe.Queue: p.Begun.Sub(came), observe.Feature: p.Feature, observe.Model: p.Model, observe.Emit: p.Emit, observe.Commit: p.Committed.Sub(p.Made)} {
		h.phases[phase].add(took)
	}
	h.sum.add(p.Committed.Sub(came))
}

func (h *phaseTimes) figures() (phases []Phase, sum Phase) {
	of := func(name string, t *times) Phase {
		return Phase{Name: name, P50: t.quantile(0.5), P99: t.quantile(0.99)}
	}
	for _, phase := range observe.PhasesOf(false) {
		phases = append(phases, of(phase.String(), &h.phases[phase]))
	}
	return phases, of("sum", &h.sum)
}
