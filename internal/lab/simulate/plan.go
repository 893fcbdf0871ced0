package simulate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// Load is the load that workers must handle.
type Load struct {
	Rate       float64       // events per second
	Batch      int           // events per call
	BatchTime  time.Duration // duration of a call
	Redundancy int           // factor on the number of needed workers; 0 is 1
	Cores      int           // cores per machine; a worker uses one
}

// Plan is the resources that a load needs.
type Plan struct {
	Rate          float64 `json:"rate"`
	PerWorker     float64 `json:"per_worker"` // events per second
	Least         Staff   `json:"least"`
	Redundant     Staff   `json:"redundant"`       // equal to Least if the redundancy is 1
	Partitions    int     `json:"partitions"`      // least number; a partition has one worker
	PartitionsFor int     `json:"partitions_grow"` // number that also divides evenly among twice the workers
	Cores         int     `json:"cores"`           // cores per machine
	Machines      int     `json:"machines"`
	OneMachine    bool    `json:"one_machine"` // one machine is enough
}

// Staff is a number of workers and the resulting utilisation and waits.
type Staff struct {
	Workers     int     `json:"workers"`
	Utilisation float64 `json:"utilisation"` // share of the time that they are busy with full calls
	// Time from the arrival of an event to its call; -1 if the queue grows without limit.
	WaitMeanMs float64 `json:"wait_mean_ms"`
	WaitP99Ms  float64 `json:"wait_p99_ms"`
}

// Resolution of the simulation that computes the waits.
const (
	planTicks = 25     // ticks per call
	planCalls = 80_000 // simulated calls
	planBatch = 8_192  // most events per call
)

// Resolve returns how many workers a load needs, and how long its events wait. The waits come from
// a simulation: events arrive independently and are divided evenly among the workers. A free worker
// calls at once with the events that have arrived, at most a full call.
func (l Load) Resolve() (Plan, error) {
	l.Redundancy = max(l.Redundancy, 1)
	if err := l.validate(); err != nil {
		return Plan{}, err
	}
	p := Plan{Rate: l.Rate, PerWorker: float64(l.Batch) / l.BatchTime.Seconds(), Cores: l.Cores}
	workers := math.Ceil(p.need())
	if workers*float64(l.Redundancy) > workersMax {
		return Plan{}, fmt.Errorf("%.0f workers are needed, %d times: this plans for %d at most; check the time of a call", workers, l.Redundancy, workersMax)
	}
	var err error
	if p.Least, err = l.staff(&p, int(workers)); err != nil {
		return Plan{}, err
	}
	p.Redundant = p.Least
	if l.Redundancy > 1 {
		if p.Redundant, err = l.staff(&p, int(workers)*l.Redundancy); err != nil {
			return Plan{}, err
		}
	}
	p.Partitions = p.Redundant.Workers
	p.PartitionsFor = 2 * p.Partitions
	p.OneMachine = p.Least.Workers <= l.Cores
	p.Machines = (p.Least.Workers + l.Cores - 1) / l.Cores * l.Redundancy
	return p, nil
}

func (l *Load) validate() error {
	var wrong []error
	if !(l.Rate > 0) || math.IsInf(l.Rate, 0) {
		wrong = append(wrong, errors.New("the rate has to be above 0"))
	}
	if l.Batch < 1 || l.Batch > planBatch {
		wrong = append(wrong, fmt.Errorf("a call of %d events: use 1 to %d", l.Batch, planBatch))
	}
	if l.BatchTime < planTicks || l.BatchTime > time.Hour {
		wrong = append(wrong, fmt.Errorf("a call of %v: use %v to 1h; of faster models, give the time of more events", l.BatchTime, time.Duration(planTicks)))
	}
	if l.Cores < 1 {
		wrong = append(wrong, errors.New("a machine has a core at least"))
	}
	return errors.Join(wrong...)
}

// need returns the number of workers that would be busy all the time. It rounds a result within a
// billionth above a whole number down, because rates are not more precise than that.
func (p *Plan) need() float64 {
	need := p.Rate / p.PerWorker
	if whole := math.Round(need); whole > 0 && math.Abs(need-whole) < 1e-9*whole {
		return whole
	}
	return need
}

// staff returns the utilisation and the waits for a number of workers.
func (l *Load) staff(p *Plan, workers int) (Staff, error) {
	s := Staff{Workers: workers, Utilisation: p.need() / float64(workers), WaitMeanMs: -1, WaitP99Ms: -1}
	if s.Utilisation >= 1 {
		return s, nil
	}
	tick := l.BatchTime / planTicks
	r, err := Run(Options{
		Ticks: planTicks * planCalls, Tick: tick, Seed: 7,
		Queue:    control.GateOptions{Max: max(2000, 8*l.Batch)},
		Arrivals: Poisson, Peak: l.Rate / float64(workers), Backlog: true,
		Service: Service{From: tick * planTicks}, Batch: l.Batch,
	}, nil)
	if err != nil {
		return s, fmt.Errorf("wait of %d workers: %w", workers, err)
	}
	s.WaitMeanMs, s.WaitP99Ms = r.WaitMeanMs, r.WaitP99Ms
	return s, nil
}
