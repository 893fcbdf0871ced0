package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/simulate"
)

type planCommand struct {
	Rate       string        `help:"Rate of events: events a second, or a rate such as 3000/m." required:"" placeholder:"RATE"`
	Batch      int           `help:"Events of a call." placeholder:"N"`
	BatchTime  time.Duration `help:"Duration of a call." placeholder:"DURATION"`
	Model      string        `help:"Instead of both: a model, or its manifest, .yaml. The command measures its calls. The events of a call are those of its batch policy, or the best size." placeholder:"FILE"`
	Rows       string        `help:"CSV file of rows to measure --model with; the default is its golden vectors, or generated rows." placeholder:"CSV"`
	MeasureFor time.Duration `help:"How long to measure --model." default:"2s"`
	Redundancy int           `help:"Factor of extra workers, so that some may fail: 2 plans twice the workers needed." default:"1"`
	Cores      int           `help:"Cores of a machine; 0 is the number of this machine. A worker that computes its model uses one core." default:"0"`
	JSON       bool          `help:"Print one object of JSON." name:"json"`
}

// Run prints the resources that the load needs.
func (c *planCommand) Run(a *app) error {
	rate, err := simulate.ParseRate(c.Rate)
	if err != nil {
		return failure.As(failure.OfUsage, fmt.Errorf("--rate: %w", err))
	}
	if c.Redundancy < 1 || c.Cores < 0 {
		return usage("--redundancy must be 1 or more, --cores 0 or more")
	}
	load := simulate.Load{Rate: rate, Batch: c.Batch, BatchTime: c.BatchTime, Redundancy: c.Redundancy, Cores: c.Cores}
	if c.Cores == 0 {
		load.Cores = runtime.NumCPU()
	}
	switch {
	case c.Model != "" && (c.Batch != 0 || c.BatchTime != 0):
		return usage("--model measures calls: leave out --batch and --batch-time, or --model")
	case c.Model != "":
		if load.Batch, load.BatchTime, err = c.measure(a); err != nil {
			return err
		}
	case c.Batch == 0 || c.BatchTime == 0:
		return usage("the size and time of a call are missing: add them, such as --batch 64 --batch-time 5ms, or name a --model")
	}
	plan, err := load.Resolve()
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(plan)
	}
	plan.Write(a.stdout, &load)
	return nil
}

// measure returns the batch size of a call, from the manifest or the measurement, and the median
// duration of a call. If calls are too short to matter, it returns several of them as one.
func (c *planCommand) measure(a *app) (int, time.Duration, error) {
	costs, policy, manifest, err := a.registry().Sweep(a.ctx, c.Model, c.Rows, c.MeasureFor)
	if err != nil {
		return 0, 0, err
	}
	size := policy.Size
	if manifest != nil && manifest.Batch.Size > 0 {
		size = manifest.Batch.Size
	}
	batch, took := costs[0].Rows, costs[0].P50
	for _, cost := range costs {
		if cost.Rows > batch && cost.Rows <= size && !cost.ByLength {
			batch, took = cost.Rows, cost.P50
		}
	}
	took = max(took, 1)
	for took < time.Microsecond {
		batch, took = 2*batch, 2*took
	}
	return batch, took, nil
}
