package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/ops/report"
)

type orderCommand struct {
	Status orderStatusCommand `cmd:"" help:"Say how far each source partition is, how many events wait for their turn, and which source partition they wait for."`
	Skip   orderSkipCommand   `cmd:"" help:"Do not wait any more for a source partition, up to now. Its events of before have their turn when they come: they are forced. The log has it, so that a replay does the same. A process must run the pipeline."`
}

type orderStatusCommand struct {
	Pipeline string `arg:"" optional:"" help:"Name of the pipeline; without it all that the process runs and that read several partitions in one order."`
	directoryFlags
	JSON bool `name:"json" help:"Print what GET /v1/order replies with: pipelines, a list of pipeline, order, held, forced, late, sources, stages and partitions; times in seconds."`
}

type orderSkipCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Source   string `required:"" help:"Source partition that events wait for." placeholder:"TOPIC/PARTITION"`
	directoryFlags
}

// Run prints the partitions that events wait for.
func (c *orderStatusCommand) Run(a *app) error {
	client, err := c.process(a, errors.New("no process runs here that knows what events wait for: start afterbay run, and name its directory with --data or, on Kafka, its address with --url http://host:port"))
	if err != nil {
		return err
	}
	all, err := client.Orders(a.ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	if len(all.Pipelines) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no pipeline of the process reads several partitions in one order: only those with repartition or inputs do")
		return err
	}
	for i := range all.Pipelines {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := report.WriteOrder(a.stdout, &all.Pipelines[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run skips a source partition.
func (c *orderSkipCommand) Run(a *app) error {
	client, err := c.process(a, fmt.Errorf("no known process runs pipeline %q: start afterbay run; for a process elsewhere give its address with --url", c.Pipeline))
	if err != nil {
		return err
	}
	done, err := client.Skip(a.ctx, c.Pipeline, c.Source)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s is skipped up to now: %s waited for it. Its events of before are forced when they come\n", done.Source, counted(done.Held, "event"))
	return err
}
