package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"time"

	"github.com/afterbay/afterbay/internal/lab/bench"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/model"
)

type placementCommand struct {
	File   string `arg:"" optional:"" help:"Pipeline file."`
	Events string `help:"File of events to repeat, NDJSON, or CSV with a header. Without it, events are generated from the input's fields." placeholder:"FILE"`
	placementFlags
	Pipeline string        `help:"Pipeline, if several of the file have models." placeholder:"NAME"`
	Model    string        `help:"Model to place, if the pipeline has several." placeholder:"NAME"`
	Rate     int           `help:"Events per second, on a fixed schedule." default:"2000"`
	Duration time.Duration `help:"How long to keep the rate, in each round." default:"5s"`
	Rounds   int           `help:"Rounds, each with both placements; the result is the median." default:"3"`
	parallelismFlags
	Dir    string        `help:"Folder to work in, on the disk to measure. The default is a temporary one." placeholder:"DIR"`
	Seed   uint64        `help:"Seed of generated events." default:"1"`
	Budget time.Duration `help:"Limit of an event's time at p99, from its append until its outputs are durable. The command exits with 1 if neither placement keeps it." placeholder:"DURATION"`
	Phases string        `help:"Do not measure: add up these p99s of queue, feature, model, emit and commit, such as feature=8ms,model=22ms,emit=4ms." placeholder:"PHASE=TIME,..."`
	JSON   bool          `help:"Print JSON." name:"json"`
}

// placementFlags select the endpoint to compare with.
type placementFlags struct {
	Endpoint      string `help:"Endpoint of the model with the Open Inference Protocol: grpc://HOST:PORT, grpcs://, http:// or https://. Without it, afterbay serve runs on this machine." placeholder:"URL"`
	EndpointModel string `help:"Name of the model at the endpoint; the default is its name in the pipeline." placeholder:"NAME"`
	Token         string `help:"Token for --endpoint." env:"AFTERBAY_TOKEN"`
	Place         string `hidden:"" help:"Measure one placement, and print it for the command that started this one." enum:"inside,endpoint," default:""`
}

// Run measures both placements and prints the better one.
func (c *placementCommand) Run(a *app) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Phases != "" {
		phases, err := bench.ParsePhases(c.Phases)
		if err != nil {
			return usage("--phases: %w", err)
		}
		return bench.WriteSum(a.stdout, phases, c.Budget, c.JSON)
	}
	program := a.program(process.DirectoryEngine())
	program.Events, program.Ended, program.Self = a.openEvents, endedWith, self
	program.Load = func(path string) (model.Model, error) {
		m, _, _, err := a.registry().Load(a.ctx, path)
		return m, err
	}
	if c.Place != "" {
		placement, err := bench.MeasurePlace(a.ctx, c.options(), program)
		if err != nil {
			return err
		}
		return json.NewEncoder(a.stdout).Encode(placement)
	}
	r, err := bench.ComparePlaces(a.ctx, c.options(), program)
	if err != nil {
		return err
	}
	if err := r.Write(a.stdout, c.JSON); err != nil {
		return err
	}
	if r.Choice == bench.Neither {
		return bench.ErrNeither
	}
	return nil
}

func (c *placementCommand) validate() error {
	switch {
	case c.Phases != "" && c.File != "":
		return usage("--phases does not measure: leave out %s, or --phases", c.File)
	case c.Phases == "" && c.File == "":
		return usage("name a pipeline file to measure, or give p99s with --phases")
	case c.Rate < 1 || c.Rounds < 1 || c.Duration < 100*time.Millisecond || c.Budget < 0 || c.Parallelism < 0:
		return usage("--rate and --rounds must be above 0, --duration 100ms or more, --budget and --parallelism 0 or more")
	case c.Events == "-":
		return usage("--events: name a file, since it is read for each placement")
	case c.EndpointModel != "" && c.Endpoint == "":
		return usage("--endpoint-model needs --endpoint")
	}
	return nil
}

func (c *placementCommand) options() *bench.PlacementOptions {
	return &bench.PlacementOptions{
		File: c.File, Events: c.Events, Endpoint: c.Endpoint, EndpointModel: c.EndpointModel, Token: c.Token, Place: c.Place, Pipeline: c.Pipeline, Model: c.Model,
		Rate: c.Rate, Duration: c.Duration, Rounds: c.Rounds, Parallelism: c.Parallelism, Dir: c.Dir, Seed: c.Seed, Budget: c.Budget,
	}
}

// self returns a command that runs this program.
func self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, program, args...), nil
}
