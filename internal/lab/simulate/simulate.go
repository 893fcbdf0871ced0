// Package simulate simulates a source, a bounded queue and its workers in virtual time, with the
// same gate as the engine. It shows what happens if the source is faster than a model: the depth of
// the queue, how often the source is switched, and the cost of waiting. The same options give the
// same results on every machine.
package simulate

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// Sample is the state at the end of a tick. Counts are totals since the start.
type Sample struct {
	Tick      int  `json:"tick"` // from 0
	Depth     int  `json:"depth"`
	Backlog   int  `json:"backlog"` // in the log before the queue
	Throttled bool `json:"throttled"`
	Produced  int  `json:"produced"`
	Scored    int  `json:"scored"`
	Dropped   int  `json:"dropped"`
}

// Result is the result of a simulation. Produced is always the sum of Scored, Dropped, Depth and
// Backlog.
type Result struct {
	Ticks          int      `json:"ticks"`
	TickMs         float64  `json:"tick_ms"`
	Produced       int      `json:"produced"`
	Scored         int      `json:"scored"`          // taken out of the queue
	Dropped        int      `json:"dropped"`         // dropped because the queue was full
	Depth          int      `json:"depth"`           // depth of the queue at the end
	Backlog        int      `json:"backlog"`         // events in the log at the end
	PeakDepth      int      `json:"peak_depth"`      // maximum at the end of a tick
	PeakBacklog    int      `json:"peak_backlog"`    // maximum at the end of a tick
	ThrottledTicks int      `json:"throttled_ticks"` // ticks with a throttled source
	Throttled      bool     `json:"throttled"`       // state at the end
	Switches       int      `json:"switches"`        // switches between full rate and throttled
	WaitMeanMs     float64  `json:"wait_mean_ms"`    // from the source to the call, of scored events
	WaitP99Ms      float64  `json:"wait_p99_ms"`
	Samples        []Sample `json:"samples"` // every Options.Every ticks; the first after that many
}

// ThrottledShare returns the share of ticks with a throttled source, from 0 to 1.
func (r *Result) ThrottledShare() float64 { return float64(r.ThrottledTicks) / float64(r.Ticks) }

// Run runs a simulation. In each tick, the gate first reads the depth at the end of the previous
// tick. The source then sends at the rate that the gate allows, and events enter the queue as far
// as it has room. Free workers take their calls out of the queue. If each is not nil, it is called
// after each tick; the simulation ends when it returns false.
func Run(o Options, each func(Sample) bool) (Result, error) {
	o, err := o.resolved()
	if err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	gate, err := control.NewGate(o.Queue)
	if err != nil {
		return Result{}, err
	}
	o.Queue = gate.Marks()
	r := &run{
		Options: o, gate: gate, busy: make([]time.Duration, o.Workers),
		source:  source{options: &o, random: newRandom(o.Seed)},
		service: keyedRandom([]uint32{uint32(o.Seed), uint32(o.Seed >> 32), 1}), // a separate generator, so that it does not change the arrivals
		result:  Result{TickMs: milliseconds(o.Tick), Samples: []Sample{}},
	}
	for r.tick < o.Ticks {
		s := r.step()
		if s.Tick > 0 && s.Tick%o.Every == 0 {
			r.result.Samples = append(r.result.Samples, s)
		}
		r.tick++
		if each != nil && !each(s) {
			break
		}
	}
	return r.end(), nil
}

// run is a simulation in progress.
type run struct {
	Options
	gate    *control.Gate
	source  source
	service *random
	tick    int
	credit  float64         // events that may be read while the gate is closed
	busy    []time.Duration // time until which each worker is busy
	depth   int             // of the queue
	backlog int             // of the log
	queued  arrivals        // events of the queue and the log, the oldest first
	waits   waits
	result  Result
}

func (r *run) now() time.Duration { return time.Duration(r.tick) * r.Tick }

// at converts virtual time for the gate.
func at(now time.Duration) time.Time { return time.Unix(0, 0).Add(now) }

func (r *run) step() Sample {
	r.gate.Observe(at(r.now()), r.depth)
	rate := r.Peak
	if r.gate.Throttled() && !r.Backlog {
		rate = r.Throttled
	}
	n := r.source.next(r.now(), rate)
	r.result.Produced += n
	if r.Backlog {
		r.backlog += n
		r.queued.add(r.tick, n)
		r.read()
	} else {
		fits := min(n, r.Queue.Max-r.depth)
		r.result.Dropped += n - fits
		r.depth += fits
		r.queued.add(r.tick, fits)
	}
	r.serve()
	r.result.PeakDepth = max(r.result.PeakDepth, r.depth)
	r.result.PeakBacklog = max(r.result.PeakBacklog, r.backlog)
	return Sample{
		Tick: r.tick, Depth: r.depth, Backlog: r.backlog, Throttled: r.gate.Throttled(),
		Produced: r.result.Produced, Scored: r.result.Scored, Dropped: r.result.Dropped,
	}
}

// read moves events from the log into the queue, up to the high mark. As in a member, the gate
// checks the depth after each poll.
func (r *run) read() {
	if r.gate.Throttled() {
		r.credit += r.Throttled * r.Tick.Seconds()
		n := min(r.backlog, r.Queue.Max-r.depth, int(r.credit))
		r.credit = min(r.credit-float64(n), 1) // unused credit is not saved for later
		r.move(n)
		return
	}
	r.credit = 0
	for r.backlog > 0 && !r.gate.Throttled() {
		r.move(min(r.backlog, max(1, r.Queue.High-r.depth), r.Poll))
		r.gate.Observe(at(r.now()), r.depth)
	}
}

func (r *run) move(n int) {
	r.backlog -= n
	r.depth += n
}

// serve gives each free worker a call.
func (r *run) serve() {
	for i := range r.busy {
		if r.depth == 0 {
			return
		}
		if r.busy[i] > r.now() {
			continue
		}
		n := min(r.depth, r.Batch)
		r.depth -= n
		r.result.Scored += n
		r.queued.take(r.tick, n, &r.waits)
		r.busy[i] = r.now() + r.Service.draw(r.service)
	}
}

func (r *run) end() Result {
	state := r.gate.State(at(r.now()))
	result := r.result
	result.Ticks, result.Depth, result.Backlog = r.tick, r.depth, r.backlog
	result.ThrottledTicks = int(state.Paused / r.Tick)
	result.Throttled, result.Switches = state.Throttled, state.Switches
	result.WaitMeanMs = r.waits.mean() * result.TickMs
	result.WaitP99Ms = float64(r.waits.quantile(0.99)) * result.TickMs
	return result
}

// source sends events.
type source struct {
	options *Options
	random  *random
	credit  float64 // fraction of the next event
	sent    int     // number of recorded events sent
}

// next returns the number of events in the tick that starts now. rate is in events per second.
func (s *source) next(now time.Duration, rate float64) int {
	o := s.options
	if o.Recorded != nil {
		before := s.sent
		for s.sent < len(o.Recorded) && o.Recorded[s.sent] < now+o.Tick {
			s.sent++
		}
		return s.sent - before
	}
	if o.Burst.Off > 0 && now%(o.Burst.On+o.Burst.Off) >= o.Burst.On {
		rate = min(rate, o.Burst.Rest)
	}
	mean := rate * o.Tick.Seconds()
	switch o.Arrivals {
	case Poisson:
		return s.random.poisson(mean)
	case Steady:
		s.credit += mean
		n := int(s.credit + 1e-9) // a thousand thousandths must sum to one
		s.credit -= float64(n)
		return n
	}
	if s.random.float() < mean {
		return 1
	}
	return 0
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
