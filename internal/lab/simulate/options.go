package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// Arrivals is the arrival process of a source.
type Arrivals int

// Arrival processes.
const (
	Bernoulli Arrivals = iota // at most one per tick, at random
	Poisson                   // any number per tick, all independent
	Steady                    // at equal intervals
)

var arrivalNames = []string{"bernoulli", "poisson", "steady"}

// String returns bernoulli, poisson or steady.
func (a Arrivals) String() string { return arrivalNames[a] }

// ParseArrivals returns the arrival process with a name. An unknown name is an error.
func ParseArrivals(name string) (Arrivals, error) {
	if at := slices.Index(arrivalNames, name); at >= 0 {
		return Arrivals(at), nil
	}
	return 0, fmt.Errorf("arrivals %q: there are bernoulli, poisson and steady", name)
}

// Burst makes a source pause repeatedly. The zero value is a source that never pauses.
type Burst struct {
	On, Off time.Duration // durations of full rate and of the pause, in turn
	Rest    float64       // most events per second during the pause
}

// Service is the distribution of the duration of a call. The zero value is always 4 ms.
type Service struct {
	Kind     ServiceKind
	From, To time.Duration   // To is for Uniform only; a From of 0 is 4 ms, except for Uniform
	Measured []time.Duration // drawn from at random
}

// ServiceKind is the kind of distribution of a call's duration.
type ServiceKind int

// Kinds of service.
const (
	Fixed       ServiceKind = iota // always From
	Exponential                    // exponential with mean From
	Uniform                        // uniform between From and To
	Measured                       // one of the measured durations
)

// Mean returns the mean duration of a call.
func (s *Service) Mean() time.Duration {
	switch s.Kind {
	case Uniform:
		return s.From + (s.To-s.From)/2
	case Measured:
		sum := 0.0
		for _, took := range s.Measured {
			sum += float64(took)
		}
		return time.Duration(sum / float64(max(1, len(s.Measured))))
	}
	return s.From
}

// draw returns the duration of a call. A fixed duration uses no random number.
func (s *Service) draw(r *random) time.Duration {
	switch s.Kind {
	case Exponential:
		return time.Duration(r.exponential() * float64(s.From))
	case Uniform:
		return s.From + time.Duration(r.float()*float64(s.To-s.From))
	case Measured:
		return s.Measured[int(r.float()*float64(len(s.Measured)))]
	}
	return s.From
}

// Options configure a simulation. With only Peak set, one worker takes 4 ms per event behind a
// queue of 2,000, for 4,000 ticks of 1 ms.
type Options struct {
	Ticks int           // 0 is 4,000 or, for a recorded source, up to its last event
	Tick  time.Duration // 0 is 1 ms
	Seed  uint64        // seed of the random numbers

	Queue control.GateOptions

	Arrivals  Arrivals
	Peak      float64         // events per second at full rate
	Throttled float64         // events per second while throttled
	Burst     Burst           // pauses of the source
	Recorded  []time.Duration // recorded arrival times, sorted; replaces Arrivals, Peak and Burst

	// Backlog puts a log between the source and the queue. The source then never slows down: its
	// events wait in the log, and Throttled is the rate at which the throttled queue reads the log.
	// At full rate the queue reads all available events, at most Poll at a time.
	Backlog bool
	Poll    int // 0 is 1,024

	Service Service
	Workers int // workers that serve the queue in parallel; 0 is 1
	Batch   int // most events per call; 0 is 1

	Every int // ticks between samples; 0 is 250
}

// Upper limits, so that a simulation with a mistyped number still ends.
const (
	ticksMax   = 100_000_000
	workersMax = 10_000
)

// resolved returns the options with defaults in place of zeros, or all errors in them.
func (o Options) resolved() (Options, error) {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	o.fill()
	if o.Ticks < 1 || o.Ticks > ticksMax {
		refuse("%d ticks: use 1 to %d", o.Ticks, ticksMax)
	}
	if o.Tick < 0 {
		refuse("ticks of %v: use a time above 0", o.Tick)
	}
	if _, err := o.Queue.Resolved(); err != nil {
		wrong = append(wrong, err)
	}
	if o.Peak < 0 || o.Throttled < 0 || o.Burst.Rest < 0 {
		refuse("a rate is below 0: use 0 or more")
	}
	if o.Burst.On < 0 || o.Burst.Off < 0 || (o.Burst.Off > 0 && o.Burst.On == 0) {
		refuse("bursts of %v every %v: use times above 0", o.Burst.On, o.Burst.On+o.Burst.Off)
	}
	if o.Recorded != nil && !o.Backlog {
		refuse("recorded events cannot be throttled: let them wait in a log (backlog)")
	}
	if !slices.IsSorted(o.Recorded) {
		refuse("recorded events have to be in order of time")
	}
	mean := o.Peak * o.Tick.Seconds()
	if !o.Backlog {
		mean = max(o.Peak, o.Throttled) * o.Tick.Seconds()
	}
	switch {
	case o.Recorded != nil:
	case o.Arrivals == Bernoulli && mean > 1:
		refuse("%g events a tick: bernoulli arrivals are at most one; use poisson, or a shorter tick", mean)
	case o.Arrivals == Poisson && mean > poissonMax:
		refuse("%g events a tick: use a shorter tick, of at most %d", mean, poissonMax)
	}
	if o.Service.Kind == Measured && len(o.Service.Measured) == 0 || o.Service.Kind == Uniform && o.Service.To < o.Service.From {
		refuse("the time of a call has no range: give times, the smaller one first")
	} else if o.Service.Mean() < o.Tick {
		refuse("a call takes %v: workers look at the queue once a tick, so use ticks shorter than that; ten times as short loses little", o.Service.Mean())
	}
	if o.Workers < 1 || o.Workers > workersMax || o.Batch < 1 || o.Poll < 1 || o.Every < 1 {
		refuse("workers are 1 to %d, and batch, poll and the ticks between samples 1 or more", workersMax)
	}
	return o, errors.Join(wrong...)
}

func (o *Options) fill() {
	fill := func(value *int, otherwise int) {
		if *value == 0 {
			*value = otherwise
		}
	}
	if o.Tick == 0 {
		o.Tick = time.Millisecond
	}
	if n := len(o.Recorded); n > 0 && o.Tick > 0 {
		fill(&o.Ticks, int(o.Recorded[n-1]/o.Tick)+1)
	}
	fill(&o.Ticks, 4000)
	fill(&o.Poll, 1024)
	fill(&o.Workers, 1)
	fill(&o.Batch, 1)
	fill(&o.Every, 250)
	if o.Service.From == 0 && (o.Service.Kind == Fixed || o.Service.Kind == Exponential) {
		o.Service.From = 4 * time.Millisecond
	}
}

// Preset returns options with well-known results. textbook has a source with twice the rate of the
// worker, which slows down to three fifths of the worker's rate while throttled. wide sets its
// marks to 195 and 5, and equal sets both to 100. fast has a worker that takes 1.5 ms.
func Preset(name string) (Options, error) {
	o := Options{
		Ticks: 4000, Tick: time.Millisecond, Seed: 7, Queue: control.GateOptions{Max: 200, High: 150, Low: 50},
		Arrivals: Bernoulli, Peak: 500, Throttled: 150, Service: Service{From: 4 * time.Millisecond},
	}
	switch name {
	case "textbook":
	case "wide":
		o.Queue.High, o.Queue.Low = 195, 5
	case "equal":
		o.Queue.High, o.Queue.Low = 100, 100
	case "fast":
		o.Service.From = 1500 * time.Microsecond
	default:
		return Options{}, fmt.Errorf("preset %q: there are textbook, wide, equal and fast", name)
	}
	return o, nil
}
