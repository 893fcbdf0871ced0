package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// Arrivals says how the events of a source come.
type Arrivals int

// The ways that events come.
const (
	Bernoulli Arrivals = iota // at most one a tick, by chance
	Poisson                   // any number a tick, each independent of the others
	Steady                    // evenly
)

var arrivalNames = []string{"bernoulli", "poisson", "steady"}

// String returns bernoulli, poisson or steady.
func (a Arrivals) String() string { return arrivalNames[a] }

// ParseArrivals returns the arrivals of a name.
func ParseArrivals(name string) (Arrivals, error) {
	if at := slices.Index(arrivalNames, name); at >= 0 {
		return Arrivals(at), nil
	}
	return 0, fmt.Errorf("arrivals %q: there are bernoulli, poisson and steady", name)
}

// Burst lets a source rest at times. The zero value is a source that never does.
type Burst struct {
	On, Off time.Duration // it goes on at its rate, then rests, over and over
	Rest    float64       // events a second while it rests, at most
}

// Service says how long a call takes. The zero value is 4 ms, always.
type Service struct {
	Kind     ServiceKind
	From, To time.Duration   // To is of Uniform alone; From is 4 ms where it is 0 and not of Uniform
	Measured []time.Duration // drawn from by chance
}

// ServiceKind is how the time of a call is drawn.
type ServiceKind int

// The kinds of service.
const (
	Fixed       ServiceKind = iota // From
	Exponential                    // with the mean From
	Uniform                        // between From and To
	Measured                       // one of those measured
)

// Mean returns how long calls take on average.
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

// draw returns how long a call takes. A fixed time draws nothing.
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

// Options say what is simulated. The zero value but for Peak is a worker that
// takes 4 ms an event, behind a queue of 2,000, for 4,000 ticks of 1 ms.
type Options struct {
	Ticks int           // 4,000 where 0; of a recorded source, up to its last event
	Tick  time.Duration // 1 ms where 0
	Seed  uint64        // of the random numbers

	Queue control.GateOptions

	Arrivals  Arrivals
	Peak      float64         // events a second of a source at full rate
	Throttled float64         // events a second of a source that is throttled
	Burst     Burst           // when the source rests
	Recorded  []time.Duration // when events came, in order: instead of Arrivals, Peak and Burst

	// Backlog puts a log between source and queue: the source never slows down, what
	// it sends waits in the log, and Throttled is how fast the queue reads it while
	// it is throttled. At full rate it reads what there is, Poll at a time.
	Backlog bool
	Poll    int // 1,024 where 0

	Service Service
	Workers int // that serve the queue side by side; 1 where 0
	Batch   int // events of a call, at most; 1 where 0

	Every int // ticks from sample to sample; 250 where 0
}

// The most that is simulated, so that a slip of the finger ends.
const (
	ticksMax   = 100_000_000
	workersMax = 10_000
)

// resolved returns the options with those that are 0 filled in, or all that is
// wrong with them.
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
		refuse("a rate is below 0: no source takes events back")
	}
	if o.Burst.On < 0 || o.Burst.Off < 0 || (o.Burst.Off > 0 && o.Burst.On == 0) {
		refuse("bursts of %v every %v: use times above 0", o.Burst.On, o.Burst.On+o.Burst.Off)
	}
	if o.Recorded != nil && !o.Backlog {
		refuse("recorded events come whatever the queue does: let them wait in a log (backlog)")
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
		refuse("the time of a call is drawn from nothing: give times, the smaller one first")
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

// Preset returns options with well-known figures: textbook is a source of twice
// the worker's rate, which slows down to three fifths of it while it is
// throttled; wide and equal have its marks at 195 and 5, and both at 100; fast
// has a worker of 1.5 ms.
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
